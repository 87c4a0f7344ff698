"""A warning is printed in full once a session; a later cell's repetition takes one short line."""
OWN = DIRECTORY + "/"
SHORT = 80
SEEN_MAX = 500
seen = {}  # (category, text) → the cell that printed it


def adopt(session, warnings):
    original = warnings.formatwarning

    def formatwarning(message, category, filename, lineno, line=None):
        text = str(message)
        key = (category, text)
        if seen.get(key, session.cell) == session.cell:
            if len(seen) < SEEN_MAX:
                seen[key] = session.cell
            if str(filename).startswith(OWN):  # of a figure that is drawn here
                return "%s: %s\n" % (category.__name__, text)
            return original(message, category, filename, lineno, line)
        first = text.strip().partition("\n")[0]
        first = first if len(first) <= SHORT else first[:SHORT] + " ..."
        place = "" if str(filename).startswith(OWN) else "%s:%s: " % (filename, lineno)
        return "%s%s: %s [as in <cell %s>]\n" % (place, category.__name__, first, seen[key])

    load("stack").wear(formatwarning, original)
    warnings.formatwarning = formatwarning
