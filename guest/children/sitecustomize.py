"""Runs in each Python that a session starts: puts the installed packages after the standard library on sys.path.

As entries of PYTHONPATH they would come before it, and a package may have modules of any name. Only this directory is
on PYTHONPATH, and it has no other file. site(3) imports a sitecustomize after the paths of site-packages are known; the
interpreter's own one runs first.

If the program is pip and would download something, it ends at once and names the tool that can. It succeeds if all is
installed already.

What it prints into a pipe leaves it line by line: the output of a call is a pipe, and has what a program had printed
before it was killed.

Where it handles signals, calls that these end only in this sandbox are repeated: see repeats.py.
"""
import _signal
import os
import stat
import sys

SITES = ("site-packages", "dist-packages")
DOWNLOADS = ("install", "download", "wheel")
ARCHIVES = (".whl", ".zip", ".tar", ".gz", ".tgz", ".bz2", ".tbz", ".xz", ".txz")
UPGRADES = {"-U", "--upgrade", "--force-reinstall", "-I", "--ignore-installed", "-t", "--target"}
FILES = (".txt", ".in", ".toml", ".cfg", ".ini", ".lock", ".yml", ".yaml", ".json", ".py")  # as in install_request.c
WITH_VALUE = ("-r", "-c", "-i", "-t", "--requirement", "--constraint", "--index-url", "--extra-index-url", "--target")


def place(layers):
    """The same position as on the session's sys.path, see packages.py."""
    path = [entry for entry in sys.path if entry not in layers]
    at = [i for i, entry in enumerate(path) if os.path.basename(entry) in SITES] + [len(path)]
    path[at[0] : at[0]] = layers
    sys.path[:] = path


def arguments_of_pip():
    """The arguments if this process is pip, by its name or with -m."""
    words = getattr(sys, "orig_argv", None)
    if words is None:  # up to Python 3.9
        try:
            with open("/proc/self/cmdline", "rb") as file:
                words = os.fsdecode(file.read()).split("\0")[:-1]
        except OSError:
            words = []
    words = words[1:]
    while words and words[0][:1] == "-" and words[0] not in ("-m", "-c", "-"):
        words = words[2 if words[0] in ("-W", "-X") else 1 :]
    is_module = words[:1] == ["-m"]
    words = words[1:] if is_module else words
    name = (words[0] if is_module else os.path.basename(words[0])) if words else ""
    return words[1:] if name.rstrip("0123456789.") == "pip" else []


def satisfied(names, files):
    """What pip would install, with versions, if all of it is installed; else an empty list."""
    try:
        from importlib.metadata import version
        from pip._vendor.packaging.requirements import Requirement
        from pip._vendor.packaging.utils import canonicalize_name

        for path in files:
            with open(path, encoding="utf-8") as file:
                names = names + [line.partition("#")[0].strip() for line in file]
        needs = [Requirement(name) for name in names if name]
        needs = [(need, version(canonicalize_name(need.name))) for need in needs if need.marker is None or need.marker.evaluate()]
        are_there = all(not need.extras and need.specifier.contains(found, prereleases=True) for need, found in needs)
        return ["%s (%s)" % (need, found) for need, found in needs] if are_there else []
    except Exception:  # no such version, or what only pip understands
        return []


def file_in(word):
    """The name of a file where pip would take one for a package, with extras, a version or a marker behind it; else None."""
    for mark in "[(<>=!~; ":
        word = word.partition(mark)[0]
    is_one = word.lower().endswith(FILES) and word.lower() not in ("ruamel.yaml", "discord.py") or word == "Pipfile"
    return word if is_one and "://" not in word else None


def refuse_downloads(words):
    """Code has no network, unless the user allows hosts; and pip would retry for many seconds. It would take the name of a
    file for a package's, which anybody can have taken on an index."""
    if words[:1] == ["uninstall"] and not os.access(sys.prefix, os.W_OK):
        refuse("pip: installed packages stay in this sandbox; install_package replaces one with another version")
    if not words or words[0] not in DOWNLOADS:
        return
    names, files, before, wrong = [], [], "", None
    for word in words[1:]:
        if before in ("-r", "--requirement"):
            files.append(word)
        elif before not in WITH_VALUE and word[:1] != "-" and file_in(word):
            wrong = file_in(word)
            files.append(wrong)
        elif word[:1] != "-" and before not in WITH_VALUE:
            names.append(word)
        before = word
    if "https_proxy" in os.environ:
        if wrong:
            refuse("pip: %s is a file, not a package: pip %s -r %s" % (wrong, words[0], wrong))
        return
    if any("://" in name and not name.startswith("file:") for name in names):
        refuse("pip: code in this sandbox has no network, and install_package takes packages of the index only, by name")
    local = any(name == "." or "/" in name or name.endswith(ARCHIVES) for name in names)
    if local and not wrong or not names + files or "--no-index" in words:
        return
    there = satisfied(names, files) if words[0] == "install" and not UPGRADES.intersection(words) else []
    if there:
        os.write(1, "".join("Requirement already satisfied: %s\n" % line for line in there).encode("utf-8", "replace"))
        os._exit(0)
    text = "pip: code in this sandbox has no network"
    if "SANDPIPER_INSTALL" in os.environ:
        items = ['"%s"' % name for name in names] + ["the lines of " + file for file in files]
        text = "%s; use the tool install_package: packages=[%s]" % (text, ", ".join(items))
    refuse(text)


def refuse(text):
    os.write(2, (text + "\n").encode("utf-8", "replace"))
    os._exit(1)


def repeat_interrupted(directory):
    names = {}
    with open(directory + "/repeats.py", encoding="utf-8") as file:
        exec(compile(file.read(), file.name, "exec"), names)
    names["begin"](_signal, os)


own = os.path.dirname(__file__)
sys.path[:] = [entry for entry in sys.path if entry != own]
del sys.modules[__name__]
try:
    if stat.S_ISFIFO(os.fstat(1).st_mode):
        sys.stdout.reconfigure(line_buffering=True)
except (OSError, AttributeError):  # it has no stdout
    pass
repeat_interrupted(os.path.dirname(own))
try:
    import sitecustomize  # the next one; where there is none, site expects this ImportError
finally:
    place([layer for layer in os.environ.get("SANDPIPER_PACKAGES", "").split(":") if layer])
    refuse_downloads(arguments_of_pip())
