"""One sentence that saves a round, for the failures that a model meets most."""
import errno
import os
import re
import sys
from difflib import get_close_matches
from itertools import islice
from os.path import basename, dirname, exists, isabs, isdir, join

try:
    from resource import RLIMIT_FSIZE, getrlimit
except ImportError:  # a trimmed Python
    getrlimit = None

distributions = load("distributions")
Pattern = load("language").Pattern
WINDOWS = ("tkinter", "_tkinter", "turtle")
NO_DISPLAY = Pattern(r"no display name|\$DISPLAY|[Cc]annot load backend|interactive framework|No available video device"
                     r"|could not locate runnable browser|cannot (open|connect to) (X server|display)|Qt binding modules")
REFUSED = Pattern(r"\[Errno 111\]|[Cc]onnection refused")
FOREIGN = Pattern(r"file:(?://[^/]*)?(?=/)|sandbox:(?://)?(?=/)|[A-Za-z][\w+.-]*:(?=[/\\])")
DESKTOP = ("xdg-open", "open", "start", "gio", "display", "eog", "feh", "firefox", "google-chrome", "chromium")
INSTALLERS = ("pip", "pip3", "uv", "conda", "mamba", "pipx", "poetry")
SYSTEM_INSTALLERS = ("apt", "apt-get", "brew", "dnf", "yum", "apk", "sudo")
OPTIONAL = Pattern(r"[Mm]issing optional dependency '([\w.-]+)'|(?:pip3?|conda) install (?:-\S+ +)*[`'\"]?([A-Za-z][\w.-]*(?:\[[\w,-]+\])?)")
INSTALL = Pattern(r"[!%%]*\s*(?:\S*python[\d.]*|\{sys\.executable\})?\s*(?:-m\s+)?(?:%s)\s+(?:pip\s+)?(?:install|add)\b(.*)"
                  % "|".join(INSTALLERS))
WITH_VALUE = Pattern(r"(?<!\S)(?:-[riceft]|--(?:requirement|index-url|extra-index-url|constraint|find-links|target|"
                     r"channel|platform|prefix|trusted-host|editable))(?:=|\s+)\S+")
MAKES = "; os.makedirs makes it"
READING = Pattern(r"""\bopen\((?:[^,()]*|[^()]*['"]rb?t?['"][^()]*)\)|(?:\b|_)(?:read|load|listdir|scandir)""")
NAMES_SHOWN = 10
FILE = Pattern(r"(?i)['\"]?((?:[\w./-]*\.(?:txt|in|toml|cfg|ini|lock|ya?ml|json|whl|py|zip|tar|t?gz|bz2|tbz|t?xz)|(?-i:Pipfile)))(?![\w.-])")
NAMED_LIKE_FILES = ("ruamel.yaml", "discord.py")
CHOSEN_MIN = 32768  # the kernel's first port for who asks for any, ip(7)
UNWAITED_MIN = 15  # children that have ended, from which on the hint names them
TERMINALS = 32  # as the sandbox limits them; the directory has one more entry


def distribution_for(module):
    """The well-known distribution that has the module, from the longest prefix in the table, or None. On an index anybody
    can have taken the first word of a module, as of google.colab."""
    parts = module.split(".")
    for end in range(len(parts), 0, -1):
        known = distributions.DISTRIBUTIONS.get(".".join(parts[:end]))
        if known:
            return known
    plain = parts[0].replace("_", "-")
    return plain if plain in distributions.COMMON else None


def whole_name(session, error):
    """The module as the code names it: of `import google.auth` the exception names google if that is not there."""
    text = session.sources.get(innermost(error).f_code.co_filename, "")
    try:
        found = load("packages").imports_of(load("language").parse(text, "<imports>", session.flags))
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        found = []
    return next((name for name in found if name.startswith(error.name + ".")), error.name)


def no_display():
    return ("there is no display: figures, and image files that the code saves, come with the result; select no back end "
            "of matplotlib, and open no window or browser")


def missing_module(session, error):
    module = error.name
    if not module:
        return None
    if module.startswith("sandpiper."):
        return "its tools are attributes: from sandpiper import tools; tools.SERVER.TOOL(...)"
    if module == "sandpiper":
        return "sandpiper.tools exists only if the user grants tools of other servers, with --tools"
    module = whole_name(session, error)
    top = module.partition(".")[0]
    if top in WINDOWS:
        return no_display()
    if top in getattr(sys, "stdlib_module_names", ()):
        return "`%s` belongs to the standard library, but this Python %d.%d lacks it" % (
            module, sys.version_info[0], sys.version_info[1],
        )
    if top in IMPORTED:
        return "`%s` is installed, but has no module `%s`: check its version or the name" % (top, module)
    if module.startswith("google.colab"):
        return "google.colab exists on Colab only: the session's files are in %s" % session.root
    place = in_workspace(session.root, top)
    if place:
        return "`%s` is in %s: sys.path.insert(0, %r)" % (top, place, place)
    if top == "IPython":
        return "display() is built in here, without IPython"
    distribution = distribution_for(module)
    there = load("packages").modules_of(distribution or top)
    if there and top not in there:
        return "%s is installed, and its modules are: %s" % (distribution or top, ", ".join(there[:NAMES_SHOWN]))
    alias = top not in distributions.DISTRIBUTIONS and imported_as(top)
    if alias:
        return "the module of %s is `%s`" % (distributions.DISTRIBUTIONS[alias], alias)
    if "install" not in session.options:
        if distribution in (None, module):
            return "`%s` is not installed" % module
        return "`%s` comes with the distribution %s, which is not installed" % (module, distribution)
    if distribution:
        while len(module) > len(error.name) and distribution_for(module.rpartition(".")[0]) == distribution:
            module = module.rpartition(".")[0]  # of `from a import b` the b may be no module
        return "install_package with packages=[\"%s\"] makes `import %s` work" % (distribution, module)
    return ("`%s` is not installed: is its file missing in the workspace? install_package can install what has it, but only if "
            "you know that package, whose name may differ" % module)


def imported_as(name):
    """The module of a distribution whose name is none of a module."""
    plain = load("packages").plain
    return next((module for module, known in distributions.DISTRIBUTIONS.items()
                 if plain(known) == plain(name) != plain(module) and module not in distributions.MORE_MODULES), None)


def in_workspace(root, top):
    """The directory of the workspace that has this module but is not the current one."""
    for directory in [root] + [join(root, name) for name in some_names(root) if name[:1] != "."]:
        if exists(join(directory, top + ".py")) or exists(join(directory, top, "__init__.py")):
            return directory if directory != os.getcwd() else None
    return None


def optional_dependency(session, message):
    """Libraries name pip. They are believed as to what they need."""
    found = OPTIONAL.search(message)
    if not found:
        return None
    name = found[1] or found[2]
    name = distributions.DISTRIBUTIONS.get(name, name)
    if file_in(name):
        return None
    if "install" in session.options:
        caution = "" if name.partition("[")[0] in distributions.KNOWN else ", but only if you know that package"
        return "not with pip: install_package with packages=[\"%s\"]%s" % (name, caution)
    return "%s is not installed, and code cannot install packages" % name


NO_SYSTEM_PACKAGES = "no system packages can be installed in the sandbox"
MAGICS = {  # those that notebook.py does not have, or not in this place
    "capture": "it belongs in the first line of the call", "writefile": "use the tool write_file, or %%writefile in the first line",
    "prun": "use cProfile.run", "bash": "it takes a script from the next line on, and no options",
    **dict.fromkeys(("html", "javascript", "js", "latex", "markdown", "svg"), "a result has text and images only; %%writefile makes a file"),
    "pylab": "import numpy and matplotlib.pyplot", "reset": "pass reset=true with the next call",
    "time": "it takes one statement, and %%time the lines below it",
    "timeit": "it takes -n, -r and a statement, and %%timeit the lines below it",
}
OPEN = "the command of this line does not end:"


def syntax(session, error):
    if str(error).startswith(OPEN):
        return "nothing was run; a script can be a cell that begins with %%bash, and write_file writes a file"
    line, readings = (error.text or "").strip()[:500], load("readings")
    installing = INSTALL.match(line.lstrip("$ "))
    if installing:
        return no_pip(session, installing[1])
    found = re.match(r"(?:[\w.]+\s*=\s*)?([!%]{1,2})\s*([\w-]*)(.*)", line)
    if found:
        mark, word, rest = found[1], found[2], found[3].strip()
        if mark == "%%" and (error.lineno or 1) > 1 and word in ("time", "timeit", *load("notebook").SHELLS):
            return "%%%%%s belongs in the first line of a call" % word
        if mark[0] == "%":
            return "%s%s is not available: %s" % (mark, word, MAGICS.get(word, "write plain Python"))
        if word in SYSTEM_INSTALLERS:
            return NO_SYSTEM_PACKAGES
        if word in readings.NO_EFFECT:
            return "!%s changes nothing for the next line: %s" % (word, readings.NO_EFFECT[word] % rest)
        return None
    found = readings.seen(session.sources.get(str(error.filename), ""), line, str(error)) or readings.command(line)
    if found:
        return found
    name = re.fullmatch(r"\?{0,2}([A-Za-z_]\S*?)\?{0,2}", line)
    return "`?` is notebook syntax: help(%s)" % name[1] if name and "?" in (line[0], line[-1]) else None


def no_pip(session, words):
    if "install" not in session.options:
        return "code cannot install packages, and pip has no network here"
    return "install packages with the tool install_package, not with code" + call_for(words)


def requirements(words):
    rest = WITH_VALUE.sub(" ", re.split(r"#|&&|\||;", words)[0])
    rest = [word.strip("'\"") for word in rest.split() if word[:1] not in "->" and "/" not in word]
    return [word for word in rest if not file_in(word)]


def file_in(word):
    """What is no name of a package in it, but of a file for -r, whose name anybody can have taken on an index, or None."""
    found = FILE.match(word)
    return found[1] if found and found[1].lower() not in NAMED_LIKE_FILES else None


def call_for(words):
    """The call that does what words such as "-q pandas 'numpy==1.26'" after "pip install" mean."""
    items = ['"%s"' % name for name in requirements(words)]
    files = map(file_in, re.split(r"[\s='\"]+", words))
    items += ["the lines of " + file for file in files if file and "/" not in file]
    return ": packages=[%s]" % ", ".join(items) if items else ""


def operating_system(session, error):
    code, hint = error.errno, None
    if code == errno.ENOENT or code is None and error.filename is None:
        hint = lost(session, error.filename or named(error))
        if hint and hint.endswith(MAKES) and READING.search(line_of(session, error)):
            hint = hint[:-len(MAKES)]
    elif code == errno.EACCES:
        hint = data(error.filename, False)
    if code == errno.ENOSYS and str(raised_in(error)).startswith("watchdog."):
        return "the sandbox has no inotify: use watchdog.observers.polling.PollingObserver"
    if hint is None and "container" in session.options:
        hint = container(session, error)
    if hint is not None:
        return hint
    if code in (errno.ENOSPC, errno.EDQUOT):
        in_use = code == errno.ENOSPC and error.filename is None and len(some_names("/dev/pts")) > TERMINALS
        return terminals(session) if in_use else full_disk(session)
    if code == errno.EFBIG:
        return "no file may be larger than the disk%s; the user can raise --disk" % mib(file_limit())
    if code == errno.EAGAIN and starts_processes(error):
        return processes(session)
    if code in (errno.EMFILE, errno.ENFILE):
        return "too many open files; close some"
    if code in (errno.ENETUNREACH, errno.EHOSTUNREACH, errno.ENETDOWN):
        return no_network()
    if code in (errno.EROFS, errno.EBUSY, errno.EACCES, errno.EXDEV) and is_below(error.filename, output_directory()):
        return "overflow files belong to the server: code can read them, but not change them"
    if code in (errno.EROFS, errno.EBUSY) and is_below(error.filename, session.root):
        if is_below(error.filename, sys.prefix):
            return "the session's interpreter is there, so it is read-only; use install_package to add packages"
        return ("read-only in the workspace, because programs outside the sandbox act on this file or it has hard "
                "links outside; the user can allow it with --allow-write")
    if code == errno.EXDEV and is_below(error.filename, session.root) and is_below(error.filename2, session.root):
        return "a directory of the user's can only be moved as a copy: shutil.move, or mv"
    if code == errno.EOVERFLOW and is_below(error.filename, session.root):
        return ("this belongs to a user or group that does not exist in the sandbox, so it cannot be changed; put a copy of it "
                "in its place")
    if code == errno.EINVAL and is_below(error.filename, session.root) and has_list(error.filename):
        return ("an access control list of this or of its directory names a user or group that does not exist in the sandbox, so "
                "with --cow it cannot be changed; put a copy of it in its place, or the user can remove the list (setfacl -b)")
    if code == errno.EROFS:
        return "this part of the file system is read-only; write below the working directory or " + load("streams").TMP
    return None


def has_list(path):
    """Whether a file has an access control list, or its directory one for new files, acl(5)."""
    for place, name in (path, "access"), (os.path.dirname(path) or ".", "default"):
        try:
            if os.getxattr(place, "system.posix_acl_" + name):
                return True
        except OSError:
            pass
    return False


def output_directory():
    return load("streams").TMP + "/output"


def is_below(path, directory):
    return isinstance(path, str) and os.path.abspath(path).startswith(directory + "/")


def named(error):
    """The path in the message of a library that gives the exception no file name."""
    found = re.search(r"(directory: )?'([^']+)'", str(error))
    return found and (join(found[2], "*") if found[1] else found[2])


def without_directory(session):
    try:
        os.getcwd()
        return None
    except FileNotFoundError:
        return "the current directory was removed: os.chdir(%r)" % session.root


def lost(session, path):
    """What a path or program that does not exist may mean."""
    if type(path) is not str or not isabs(path):
        gone = without_directory(session)
        if gone:
            return gone
    if type(path) is not str or not path:
        return None
    if path in DESKTOP:
        return no_display()
    if path in INSTALLERS:
        return no_pip(session, "")
    if path in SYSTEM_INSTALLERS:
        return NO_SYSTEM_PACKAGES
    if os.path.islink(path):
        return "%r is a symlink to %r, which does not exist here" % (path[:100], os.readlink(path)[:100])
    if path[0] == "~":
        return "Python does not expand `~`; files are in %s" % session.root
    process = re.match(r"/proc/\d+(?=/|$)", path)
    if process:
        return None if exists(process[0]) else "no process of the sandbox has this number now"
    if path.startswith(("/proc/", "/sys/")):
        return "/proc and /sys show the sandbox only: its processes, processors, network, and memory limit" + mib(session.memory_limit)
    if exists(path):
        return "the program that the first line of %r names does not exist" % path if os.access(path, os.X_OK) else None
    return foreign(session.root, path) or elsewhere(session.root, path) or data(path, True) or nearby(session.root, path)


def foreign(root, path):
    """What a URI or a path of Windows may mean here."""
    found = FOREIGN.match(path)
    if not found:
        return None
    rest = path[found.end():].replace("\\", "/")
    if exists(rest):
        return "did you mean %r?" % rest
    return elsewhere(root, rest) or "%r is no path here; files are in %s" % (path[:100], root)


def elsewhere(root, path):
    """A file of the workspace with the same name."""
    here, name = os.getcwd(), basename(path.rstrip("/"))
    for place in (join(root, path.lstrip("/")), join(here, name), join(root, name), mounted(path)):
        if name and place and exists(place):
            moved = " os.chdir has changed the current directory to %s" % here if here != root else ""
            return "did you mean %r?%s" % (place, "" if isabs(path) else moved)
    return None


def nearby(root, path):
    """Names spelled alike, the directory that is missing, or where the files are."""
    full = join(os.getcwd(), path.rstrip("/"))
    parent = dirname(full)
    if isdir(parent):
        near = alike(basename(full), parent)
        return near and "did you mean %r?" % (join(parent, near) if isabs(path) else join(dirname(path), near))
    if is_below(full, root):
        return "there is no directory %r" % dirname(path) + MAKES
    return "%s does not exist here; files are in the working directory, %s" % (dirname(path), root)


def alike(name, directory):
    """The name in a directory that differs in capitals only, or is spelt alike, or None."""
    names = some_names(directory)
    return next((one for one in names if one.casefold() == name.casefold()), None) or next(iter(get_close_matches(name, names, 1)), None)


def mounted(path):
    """The file in a directory of the user's that has the end of this path, or None."""
    parts = [part for part in path.split("/") if part not in ("", ".", "..", "*")]
    places = [join("/data", name) for name in some_names("/data")]
    return next((join(place, *parts[at:]) for at in range(len(parts)) for place in ("/data", *places) if exists(join(place, *parts[at:]))), None)


def data(path, is_missing):
    """Names the user's directories below /data, if a path that does not exist may mean one of them."""
    if not isinstance(path, str) or not isabs(path) or path.startswith(("/work/", "/tmp/")) or not isdir("/data"):
        return None
    if not is_missing:
        readable = path.startswith("/data/") and os.access(path, os.R_OK)
        return "programs below /data cannot run; copy the program to the working directory" if readable else None
    directory, name = os.path.split(path.rstrip("/"))
    while not isdir(directory):
        directory, name = os.path.split(directory)
    if directory != "/data" and not directory.startswith("/data/"):
        return "the user's directories are below /data: %s" % ", ".join(some_names("/data"))
    names, near = some_names(directory), alike(name, directory)
    if near:
        return "did you mean %r?" % join(directory, near)
    more = ", …" if len(names) > NAMES_SHOWN else ""
    return "%s contains: %s" % (directory, ", ".join(names[:NAMES_SHOWN]) + more or "nothing")


def some_names(directory):
    """Sorted; a directory with very many would delay the result."""
    try:
        with os.scandir(directory) as entries:
            return sorted(entry.name for entry in islice(entries, 1000))
    except OSError:
        return []


def container(session, error):
    """What is missing where the sandbox has no namespaces of its own."""
    tmp = load("streams").TMP
    path = error.filename if type(error.filename) is str else ""
    if error.errno == errno.EAFNOSUPPORT:
        return no_network() + ("; it has no loopback either: connect processes with pipes, socket.socketpair() or "
                               "Unix stream sockets below the working directory")
    if error.errno == errno.ENOSYS:
        return "this call is unavailable at this isolation level; instead of memfd_create use a file below %s" % tmp
    if error.errno != errno.EACCES:
        return None
    if raised_in(error) == "multiprocessing.synchronize":
        return ("multiprocessing's pools, queues and locks need /dev/shm, which is unavailable here: use threads, "
                "subprocess, or multiprocessing.Process with a Pipe")
    if path.startswith("/proc"):
        return "/proc is unavailable at this isolation level"
    if path.startswith(("/tmp", "/var/tmp", "/dev/shm")):
        return "%s belongs to the container; tempfile uses the directory for temporary files, %s" % (path[:100], tmp)
    if path.startswith("/"):
        return "code can write only below %s and %s, and read only these, programs and libraries" % (session.root, tmp)
    return None


def line_of(session, error):
    """The line of the code that has led to it."""
    cell, number = load("trace").position(session, error)
    return load("language").lines_of(session.sources.get("<cell %s>" % cell, ""))[max(number - 1, 0):][:1][0]


def innermost(error):
    """The frame that has raised it."""
    trace = error.__traceback__
    while trace and trace.tb_next:
        trace = trace.tb_next
    return trace.tb_frame if trace else sys._getframe()


def raised_in(error):
    return innermost(error).f_globals.get("__name__")


def starts_processes(error):
    """Whether that is what failed: the same error means that something else is not ready or taken."""
    code = innermost(error).f_code
    return any("fork" in name or "spawn" in name for name in (code.co_name, *code.co_names))


def has_proxy():
    return "https_proxy" in os.environ


def no_network():
    if not has_proxy():
        return "the sandbox has no network access; use write_file to bring in data"
    return ("the sandbox has no network except the HTTP proxy in https_proxy, which reaches the hosts that the user "
            "allowed: use a library that uses this proxy (urllib, requests, httpx) and leave name resolution to it")


def mib(size):
    """As the flags count; empty if it is not known."""
    return " of %d MiB" % (size >> 20) if size else ""


def full_disk(session):
    """TMPDIR is on the sandbox's own disk; the working directory may be a directory of the user's."""
    tmp = load("streams").TMP
    own = os.statvfs(tmp)
    has_space = own.f_ffree and own.f_bavail * own.f_frsize > own.f_blocks * own.f_frsize // 100
    in_memory = "cow" in session.options and "cow-store" not in session.options
    elsewhere = os.stat(".").st_dev != os.stat(tmp).st_dev
    if has_space and in_memory and elsewhere:
        return ("a file of the workspace is copied to the sandbox's disk%s before it changes, and does not fit; the user "
                "can raise --disk, or add --cow-store" % mib(own.f_blocks * own.f_frsize))
    if has_space and (elsewhere or os.path.isdir("/data") or "container" in session.options):
        where = "the working directory" if elsewhere else "of --mount" if "container" in session.options else "/data"
        return "the disk of the user's directory %s is full; remove files, or write below %s" % (where, tmp)
    if own.f_ffree == 0:
        return "the disk holds at most %d files; remove some" % own.f_files
    size = own.f_blocks * own.f_frsize
    part_of_memory = session.memory_limit and size >= session.memory_limit * 3 // 4
    flag = "--memory, of which it has three quarters" if part_of_memory else "--disk"
    other = ", or add --cow-store" if in_memory else ""
    return "the disk%s, which all sessions share, is full; remove files, or the user can raise %s%s" % (mib(size), flag, other)


def file_limit():
    return max(getrlimit(RLIMIT_FSIZE)[0], 0) if getrlimit else 0


def processes(session):
    number = " of %d" % session.process_limit if session.process_limit else ""
    try:
        ended = sum(is_unwaited(name) for name in os.listdir("/proc") if name.isdigit())
    except OSError:  # it may be closed, or not there
        ended = 0
    stop = "wait for the %d children that have ended (os.waitpid, Popen.wait)" % ended if ended > UNWAITED_MIN else "stop some"
    return ("the limit%s processes and threads, which all sessions share, is reached; %s, or the user can raise "
            "--pids") % (number, stop)


def is_unwaited(number):
    """Whether this process has ended and is still counted, as this one has not waited for it."""
    try:
        with open("/proc/%s/stat" % number, "rb", 0) as file:
            return file.read(400).rpartition(b")")[2].split()[:2] == [b"Z", b"%d" % os.getpid()]
    except OSError:
        return False


NOT_ALLOWED = "the proxy in https_proxy reaches only the hosts that the user allowed: continue without this host, or "
UNKNOWN_ISSUER = (18, 19, 20, 21)  # X509_V_ERR of OpenSSL: self-signed, also in the chain; no issuer; an unverifiable first one
NO_LISTENER = "nothing listens on that port; localhost is the sandbox itself, not the user's machine"


def report_servers(session, result):
    """Says once of a port that the user cannot open what listens there. One that the kernel has chosen is for programs."""
    state = load("changes").state
    before, state["ports"] = state["ports"], load("changes").listening()
    state["looks"] -= 1
    shown = ", ".join(str(port) for port in sorted(state["ports"] - before) if port < CHOSEN_MIN)
    if shown:
        result += ("note", "a program listens on port %s: only code here reaches it, no browser of the user's" % shown)


def ask_for_host():
    return ("send the code again if the last line of the result says that the user is asked" if "ask-host" in load("session").SESSION.options
            else "ask the user to allow it")


def network(error):
    """Libraries often wrap a refused connection several times."""
    seen = 0
    if "the user can allow" in str(error) and has_proxy():
        return "this is the user's policy, not an error: continue without this host, or " + ask_for_host()
    own = type(error).__module__
    while error is not None and seen < 10:
        name = type(error).__name__
        if getattr(error, "verify_code", 0) in UNKNOWN_ISSUER:
            return "the certificate's issuer is unknown here: of a network that has its own, the user can add it with --ca-cert"
        if isinstance(error, ConnectionRefusedError) and raised_in(error) == "multiprocessing.connection":
            return "the process of this manager or listener is gone: make it anew"
        if isinstance(error, ConnectionRefusedError) or REFUSED.search(str(error)):
            return NO_LISTENER
        if name in ("gaierror", "NameResolutionError", "NewConnectionError", "ConnectError", "ClientConnectorError"):
            if has_proxy() and str(own).startswith("aiohttp"):
                return "aiohttp uses the proxy in https_proxy only with aiohttp.ClientSession(trust_env=True)"
            return no_network()
        if isinstance(error, OSError) and error.errno in (97, 101, 113):
            return no_network()
        error, seen = error.__cause__ or error.__context__, seen + 1
    return None


def terminals(session):
    if "container" in session.options:
        return "pseudo-terminals are unavailable at this isolation level: use pipes (subprocess, pexpect.popen_spawn)"
    return "all 32 pseudo-terminals are in use: close some" if exists("/dev/ptmx") else "this sandbox has no pseudo-terminals"


def bare_tool(message):
    """For a name that is one of --tools: `tools`, a server, or a tool of one."""
    found = re.match(r"name '(\w+)' is not defined", message)
    if not found or "sandpiper" not in IMPORTED:
        return None
    return "from sandpiper import tools" if found[1] == "tools" else load("tools").meant(found[1])


NOT_UTF8 = "the text is not UTF-8: encoding=\"cp1252\" reads Latin-1 and Windows-1252, and read_file shows what it can"
FORMS = ((b"\xff\xfe", "the text is UTF-16: encoding=\"utf-16\""), (b"\xfe\xff", "the text is UTF-16: encoding=\"utf-16\""),
         (b"\x1f\x8b", "the file is compressed: gzip.open(path, \"rt\"), or compression=\"gzip\""))


def hint_for(session, error, name, message):
    if isinstance(error, ModuleNotFoundError):
        return missing_module(session, error) or optional_dependency(session, message)
    if isinstance(error, SyntaxError):
        return syntax(session, error)
    if isinstance(error, MemoryError):
        return load("trace").memory(session, error, message)
    if isinstance(error, UnicodeDecodeError) and error.encoding.startswith("utf"):
        return next((hint for head, hint in FORMS if error.start < 2 and error.object.startswith(head)), NOT_UTF8)
    if isinstance(error, RecursionError):
        limit = session.settings[2] if session.settings else sys.getrecursionlimit()
        return "recursion deeper than sys.getrecursionlimit() = %d" % limit
    if name == "RuntimeError" and "can't start new thread" in message:
        return processes(session)
    if name == "RuntimeError" and "event loop" in message and "running" in message:
        return "a cell has a running event loop: `await main()` in place of asyncio.run(main())"
    if name == "NameError" and "'__file__'" in message:
        return "a cell is no file: os.getcwd() is in place of its directory, and relative paths begin there"
    if name == "NameError" and innermost(error).f_code.co_filename in session.sources:
        readings, code = load("readings"), innermost(error).f_code.co_filename
        return readings.script(session.sources[code]) or bare_tool(message) or readings.command(session.place(innermost(error))[2], True)
    if name == "ImportError" and message.startswith("IProgress not found"):
        return "bars of tqdm.notebook need ipywidgets and a notebook: `from tqdm.auto import tqdm` prints them as text"
    if isinstance(error, ImportError) and "URI string" in message:
        return "a connection of sqlite3.connect(path) works in place of a URI, without SQLAlchemy"
    closed = load("locks").closed if message.startswith("Cannot operate on a closed database") else ()
    if closed:
        return "connections to %s were closed as the session went back or branched: sqlite3.connect makes another" % ", ".join(list(closed)[:NAMES_SHOWN])
    if name == "BdbQuit":
        return "the debugger's commands ended: pass them as the argument `stdin`, or print what you want to see"
    if name == "KeyboardInterrupt":
        return load("shell").waited_for(error)
    if name in ("CalledProcessError", "TimeoutExpired"):
        return load("shell").hint_for(session, load("shell").text_of_command(getattr(error, "cmd", "")))
    if NO_DISPLAY.search(message) or name == "KeyError" and message == "'DISPLAY'":
        return no_display()
    if isinstance(error, OSError):
        if "out of pty devices" in message:
            return terminals(session)
        return operating_system(session, error) or network(error)
    if name == "EOFError" and "container" in session.options and "multiprocessing.managers" in IMPORTED:
        return "a multiprocessing manager has no TCP address here: omit the address, so that it uses a Unix socket"
    return optional_dependency(session, message) or network(error)
