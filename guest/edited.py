"""Notes when a module of the workspace was changed after its import: its old code runs, and tracebacks show the new.

A module is known by its spec, which a reload replaces, and its file by what it was at the end of the cell that imported
it. So a change within that cell goes unnoticed. A file with the same content again, as after an undo, is no other one.
"""
import os
import sys

MODULES_MAX = 200
NOTES_MAX = 3
MODULE, SPEC = type(sys), type(sys.__spec__)
CONTENT_MOST = 1 << 20
seen = {}  # module name → [spec, path, stamp at the import, the newest stamp that a note has named, hash of the content]
last = [0, None]  # how many modules there were, and the newest


def stamp_of(path):
    try:
        s = os.stat(path)
    except OSError:
        return None
    return s.st_mtime_ns, s.st_size


def content_of(path):
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        try:
            return hash(os.read(fd, CONTENT_MOST))
        finally:
            os.close(fd)
    except OSError:
        return None


def spec_of(module):
    spec = module.__dict__.get("__spec__") if type(module) is MODULE else None
    return spec if type(spec) is SPEC else None


def look(modules, root):
    """Adds the modules of the workspace that are new."""
    newest = next(reversed(modules), None)
    if [len(modules), newest] == last:
        return
    last[:] = len(modules), newest
    for name, module in list(modules.items()):
        spec = spec_of(module)
        if spec is None or name in seen or len(seen) >= MODULES_MAX or type(spec.origin) is not str:
            continue
        path = spec.origin  # absolute; to make it so takes seconds in a very deep directory
        if path.startswith(root + "/") and path.endswith(".py") and "-packages/" not in path:
            stamp = stamp_of(path)
            seen[name] = [spec, path, stamp, stamp, content_of(path)]


def stale(modules, failed):
    """The modules whose file has changed; those that a note has named only if the cell has failed."""
    found = []
    for name, entry in list(seen.items()):
        spec, path, stamp, named, content = entry
        present = spec_of(modules.get(name))
        if present is None:
            del seen[name]
            continue
        now = stamp_of(path)
        if present is not spec:
            seen[name] = [present, path, now, now, content_of(path)]
        elif now is not None and now != stamp and content is not None and content_of(path) == content:
            entry[2:4] = now, now
        elif now is not None and now != stamp and (failed or now != named):
            entry[3] = now
            found.append(name)
    return found


def report(session, result):
    look(IMPORTED, session.root)
    found = stale(IMPORTED, result[2] == "error") if seen else ()
    for name in found[:NOTES_MAX]:
        path = os.path.relpath(seen[name][1], session.root)
        note = "`%s` was changed after its import; its old code runs until importlib.reload(%s) or reset=true"
        result += ("note", note % (path, name if name.isidentifier() else "sys.modules[%r]" % name))
    if len(found) > NOTES_MAX:
        result += ("note", "%d more imported modules were changed too" % (len(found) - NOTES_MAX))
