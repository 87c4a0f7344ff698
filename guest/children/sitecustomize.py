"""Runs in each Python that a session starts: puts the installed packages after the standard library on sys.path.

As entries of PYTHONPATH they would come before it, and a package may have modules of any name. Only this directory is
on PYTHONPATH, and it has no other file. site(3) imports a sitecustomize after the paths of site-packages are known; the
interpreter's own one runs first.

If the program is pip and would download something, it ends at once and names the tool that can.

What it prints into a pipe leaves it line by line: the output of a call is a pipe, and has what a program had printed
before it was killed.
"""
import os
import stat
import sys

SITES = ("site-packages", "dist-packages")
DOWNLOADS = ("install", "download", "wheel")
ARCHIVES = (".whl", ".tar.gz", ".zip")
WITH_VALUE = ("-r", "-c", "-i", "-t", "--requirement", "--constraint", "--index-url", "--extra-index-url", "--target")


def place(layers):
    """The same position as on the session's sys.path, see packages.py."""
    path = [entry for entry in sys.path if entry not in layers]
    at = [i for i, entry in enumerate(path) if os.path.basename(entry) in SITES] + [len(path)]
    path[at[0] : at[0]] = layers
    sys.path[:] = path


def arguments_of_pip():
    """The arguments if this process is pip, by its name or with -m. Up to Python 3.9, sys does not tell."""
    words = getattr(sys, "orig_argv", ())[1:]
    while words and words[0][:1] == "-" and words[0] not in ("-m", "-c", "-"):
        words = words[2 if words[0] in ("-W", "-X") else 1 :]
    is_module = words[:1] == ["-m"]
    words = words[1:] if is_module else words
    name = (words[0] if is_module else os.path.basename(words[0])) if words else ""
    return words[1:] if name.rstrip("0123456789.") == "pip" else []


def refuse_downloads(words):
    """Code has no network, unless the user allows hosts; and pip would retry for many seconds."""
    if not words or words[0] not in DOWNLOADS or "https_proxy" in os.environ:
        return
    names, files, before = [], [], ""
    for word in words[1:]:
        if before in ("-r", "--requirement"):
            files.append(word)
        elif word[:1] != "-" and before not in WITH_VALUE:
            names.append(word)
        before = word
    local = any(name == "." or "/" in name or name.endswith(ARCHIVES) for name in names)
    if local or not names + files or "--no-index" in words:
        return
    text = "pip: code in this sandbox has no network"
    if "SANDPIPER_INSTALL" in os.environ:
        items = ['"%s"' % name for name in names] + ["the lines of " + file for file in files]
        text = "%s; use the tool install_package: packages=[%s]" % (text, ", ".join(items))
    os.write(2, (text + "\n").encode("utf-8", "replace"))
    os._exit(1)


own = os.path.dirname(__file__)
sys.path[:] = [entry for entry in sys.path if entry != own]
del sys.modules[__name__]
try:
    if stat.S_ISFIFO(os.fstat(1).st_mode):
        sys.stdout.reconfigure(line_buffering=True)
except (OSError, AttributeError):  # it has no stdout
    pass
refuse_downloads(arguments_of_pip())
try:
    import sitecustomize  # the next one; where there is none, site expects this ImportError
finally:
    place([layer for layer in os.environ.get("SANDPIPER_PACKAGES", "").split(":") if layer])
