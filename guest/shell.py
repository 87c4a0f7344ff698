"""What a translated cell calls: commands of the shell, and the magics that have an effect.

All of it runs as a part of the cell, below its frames, so an interrupt reaches it. A command is a child of the session:
its output goes where descriptors 1 and 2 lead, in order with what the cell prints. Its exit status is no error; it is
in _exit_code and in a note of the result.
"""
import _signal
import gc
import os
import re
import sys
from _io import StringIO
from time import perf_counter, sleep
from itertools import repeat
from os import times
from os.path import basename, dirname, exists, join

try:
    from resource import RUSAGE_CHILDREN, RUSAGE_SELF, getrusage
except ImportError:  # a trimmed Python
    getrusage = None

hints = load("hints")
streams = load("streams")
Pattern = load("language").Pattern
enter = load("session").enter
environ = load("zygote").environ  # which child processes get
NAME = r"[A-Za-z_]\w*"
VARIABLE = Pattern(r"\$(\$?)(%s(?:\.%s)*)" % (NAME, NAME))
NOTES_MAX = 4
SHOWN_MAX = 80  # of a command
BASH = ("/bin/bash", "/usr/bin/bash", "/usr/local/bin/bash")
SHELL = "/bin/sh"
RESET = (_signal.SIGPIPE, _signal.SIGXFSZ)  # Python ignores them
ENDING_S, STEP_S = 0.3, 0.01  # from SIGINT to SIGKILL
READS = Pattern(r"\s(?:-[re]|--requirement|--editable)\b")
LOCAL = Pattern(r"/|--no-index|\s\.(?:\s|$)|\.(?:whl|zip|tar\.gz)(?:\s|$)")
BASE = Pattern(r"[\w.-]*")  # the name in a requirement
SEVERAL = Pattern(r"&&|[|;]")


class NotFilled(Exception):
    pass


def evaluate(source, frame):
    try:
        return enter(eval, source.strip(), frame.f_globals, frame.f_locals)
    except Exception:
        raise NotFilled from None


def text_of(value, form=""):
    try:
        return enter(format, value, form) if form else enter(str, value)
    except Exception:
        raise NotFilled from None


def brace(source, frame):
    """The text for {source}."""
    try:
        value = evaluate(source, frame)
    except NotFilled:
        head, colon, form = source.rpartition(":")
        if not colon or head.lstrip()[:1] in ("", "'", '"'):
            raise
        return text_of(evaluate(head, frame), form)
    if type(value) is tuple and source.lstrip()[:1] != "(":
        raise NotFilled  # {a,b}: two words for the shell
    return text_of(value)


def end_of(command, at):
    """Behind the brace that closes the one at `at`, or None."""
    depth = 0
    for found in re.compile("[{}]").finditer(command, at):
        depth += 1 if found[0] == "{" else -1
        if depth == 0:
            return found.end()
    return None


def variable(path, frame):
    """(text for $path, how much of the path it stands for). A name of the shell's is not filled in."""
    words = path.split(".")
    if words[0] not in frame.f_locals and words[0] not in frame.f_globals:
        raise NotFilled
    for taken in (path, words[0]):
        try:
            return text_of(evaluate(taken, frame)), taken
        except NotFilled:
            if taken == words[0]:
                raise


def fill(command, frame, bodies=(), in_body=False):
    """The command with the values of the caller's names. Here-documents, as commands.read() finds them, get none for
    braces, of which code and templates are full, and no other where the shell puts in none."""
    parts, at, quote = [], 0, ""
    while at < len(command):
        one, two, size = command[at], command[at : at + 2], 1
        piece = one
        try:
            if at in bodies:
                size, literal = bodies[at]
                piece = command[at : at + size]
                piece = piece if literal else fill(piece, frame, in_body=True)
            elif in_body and one in "{}'\"":
                pass
            elif one == "\\" or two in ("{{", "}}"):
                size, piece = 2, two if one == "\\" else one
            elif two == "${":
                size = (end_of(command, at + 1) or at + 2) - at
                piece = command[at : at + size]
            elif one == "{" and end_of(command, at):
                size = end_of(command, at) - at
                piece = command[at : at + size]
                piece = brace(piece[1:-1], frame)
            elif one == "$" and quote != "'":
                found = VARIABLE.match(command, at)
                if found and found[1]:
                    size, piece = len(found[0]), "$" + found[2]
                elif found:
                    piece, taken = variable(found[2], frame)
                    size = 1 + len(taken)
            elif one in "'\"" and quote in ("", one):
                quote = "" if quote else one
        except NotFilled:
            pass
        parts.append(piece)
        at += size
    return "".join(parts)


def start(arguments, output=None):
    """Starts a program whose output goes to the cell's, or to a descriptor."""
    streams.flush_both()
    actions = [] if output is None else [(os.POSIX_SPAWN_DUP2, output, target) for target in (1, 2)]
    return os.posix_spawn(arguments[0], arguments, dict(environ), file_actions=actions, setpgroup=0, setsigmask=(),
                          setsigdef=RESET)


def end(pid):
    """Ends a program and what it has started, when the cell does not wait for it any more."""
    try:
        os.killpg(pid, _signal.SIGINT)
        for _ in range(int(ENDING_S / STEP_S)):
            if os.waitpid(pid, os.WNOHANG)[0]:
                break
            sleep(STEP_S)
    except OSError:
        pass
    finally:
        try:
            os.killpg(pid, _signal.SIGKILL)
            os.waitpid(pid, 0)
        except OSError:
            pass


def wait(pid):
    """The exit status; below zero the signal."""
    try:
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    except ChildProcessError:  # the code ignores SIGCHLD, or waits for all children
        return 0
    except BaseException:
        end(pid)
        raise


def shell():
    return next((path for path in BASH if os.access(path, os.X_OK)), SHELL)


class Captured:
    """What the Python code of a %%capture cell writes."""

    outputs = ()

    def __init__(self, name, namespace):
        self.name, self.namespace, self.texts = name, namespace, (StringIO(), StringIO())

    def __enter__(self):
        self.before = SYS["stdout"], SYS["stderr"]
        SYS["stdout"], SYS["stderr"] = self.texts

    def __exit__(self, *_):
        SYS["stdout"], SYS["stderr"] = self.before
        if self.name:
            self.namespace[self.name] = self

    stdout = property(lambda self: self.texts[0].getvalue())
    stderr = property(lambda self: self.texts[1].getvalue())

    def __str__(self):
        return self.stdout

    def show(self):
        for stream, text in (("stdout", self.stdout), ("stderr", self.stderr)):
            SYS[stream].write(text)

    __call__ = show


class Notebook:
    def __init__(self, session):
        self.session = session
        self.failed = []  # (command, status, hint) of this cell
        self.skipped = []  # magics of this cell
        self.notes = []
        self.held = self.before = None

    def finished(self, command, status, script=""):
        self.session.namespace["_exit_code"] = status
        if status:
            hint = hint_for(self.session, script or command)
            self.failed.append((command.strip().partition("\n")[0], status, hint))

    def report(self, result):
        failed, self.failed, named = self.failed, [], None
        for command, status, hint in failed[:NOTES_MAX]:
            shown = command if len(command) <= SHOWN_MAX else command[:SHOWN_MAX] + "…"
            how = "exited with status %d" % status if status > 0 else "was ended by signal %d" % -status
            result += ("note", "`%s` %s%s" % (shown, how, ": " + hint if hint and hint != named else ""))
            named = hint
        if len(failed) > NOTES_MAX:
            result += ("note", "%d more commands failed" % (len(failed) - NOTES_MAX))
        if self.skipped:
            reload = ": importlib.reload(module) loads an edited module" if "autoreload" in self.skipped else ""
            self.notes.append("%s had no effect%s" % (", ".join("%" + word for word in self.skipped), reload))
        for note in self.notes:
            result += ("note", note)
        self.skipped, self.notes = [], []

    def skip(self, word):
        if word not in self.skipped:
            self.skipped.append(word)

    def system(self, command, bodies=()):
        self.run_shell(fill(command, sys._getframe(1), bodies))

    def run_shell(self, command):
        self.finished(command, wait(start((shell(), "-c", command))))

    def output(self, command, bodies=()):
        """The lines that it writes, to either stream."""
        command = fill(command, sys._getframe(1), bodies)
        reading, writing = os.pipe()
        with open(reading, "rb", 0) as file:
            try:
                pid = start((shell(), "-c", command), writing)
            finally:
                os.close(writing)
            try:
                written = file.readall()
            except BaseException:
                end(pid)
                raise
        self.finished(command, wait(pid))
        return written.decode("utf-8", "replace").splitlines()

    def script(self, program, text):
        path = shell() if program == "bash" else SHELL if program == "sh" else sys.executable
        if program == "bash" and path == SHELL:
            raise FileNotFoundError("there is no bash here: use %%sh")
        self.finished("%%" + program, wait(start((path, "-c", text))), text)

    def writefile(self, words, text):
        words = fill(words, sys._getframe(1))
        option, path = re.fullmatch(r"(-a\s+|--append\s+)?(.*)", words).groups()
        path = os.path.expanduser(path.strip("'\""))
        how = "Appending to" if option else "Overwriting" if os.path.exists(path) else "Writing"
        with open(path, "a" if option else "w", encoding="utf-8", errors="surrogateescape", newline="\n") as file:
            file.write(text if text.endswith("\n") else text + "\n")
        SYS["stdout"].write("%s %s\n" % (how, path))

    def capture(self, name):
        return Captured(name, sys._getframe(1).f_globals)

    def who(self, _):
        names = sorted(name for name in self.session.namespace if name[:1] != "_")
        SYS["stdout"].write("\t".join(names) + "\n")

    def install(self, command):
        """Names the tool that installs; pip itself is left what it can do here, such as a file of the workspace."""
        command = fill(command, sys._getframe(1))
        words = hints.INSTALL.match(command)[1]
        names = hints.requirements(words)
        others = any(map(hints.file_in, words.split())) or "/" in command.partition("pip")[0].replace(sys.executable, "") or READS.search(words) or LOCAL.search(hints.WITH_VALUE.sub(" ", words))
        versions = not self.session.supplies and all(load("packages").is_installed(BASE.match(name)[0]) for name in names)
        if not names or others or SEVERAL.search(words) or versions and any(BASE.match(name)[0] != name for name in names):
            self.run_shell(command)
        elif all(load("packages").is_installed(BASE.match(name)[0] if self.session.supplies else name) for name in names):
            SYS["stdout"].write("installed: %s\n" % ", ".join(names))  # with --auto-install before the cell began
            self.finished(command, 0)
        elif hints.has_proxy():
            self.run_shell(command)
        else:
            SYS["stderr"].write(hints.no_pip(self.session, words) + "\n")
            self.finished(command, 1)

    def pip(self, words):
        """What pip.main is in the session."""
        words = SYS["argv"][1:] if words is None else words
        return wait(start((sys.executable, "-m", "pip", *map(str, words))))

    def timed(self):
        return Timed()

    def hold(self, value):
        self.held = value

    def take(self):
        value, self.held = self.held, None
        return value

    def timeit(self, options, source, line):
        timeit(options, source, line, sys._getframe(1))

    def cd(self, path):
        path = fill(path, sys._getframe(1)).strip("'\"")
        try:
            here = os.getcwd()
        except FileNotFoundError:  # it was removed
            here = self.session.root
        os.chdir(self.before or here if path == "-" else os.path.expanduser(path or "~"))
        self.before = here
        SYS["stdout"].write(os.getcwd() + "\n")

    def pwd(self, _):
        return os.getcwd()

    def env(self, words):
        words = fill(words, sys._getframe(1))
        name, sign, value = words.partition("=" if "=" in words else " ")
        name, value = name.strip(), value.strip()
        if not sign:
            return environ[name] if name else dict(environ)
        environ[name] = value
        SYS["stdout"].write("env: %s=%s\n" % (name, value))

    def run(self, words):
        """A program in a namespace of its own, whose names the session then has."""
        frame = sys._getframe(1)
        words = fill(words, frame).split()
        path, old = os.path.expanduser(words[0].strip("'\"") if words else ""), SYS["argv"][:]
        namespace = {"__name__": "__main__", "__file__": path, "__builtins__": frame.f_globals["__builtins__"]}
        with open(path, "rb") as file:
            code = compile(file.read(), path, "exec", 0, True)
        SYS["argv"][:] = [path] + words[1:]
        try:
            enter(exec, code, namespace)
        finally:
            SYS["argv"][:] = old
            for name, value in namespace.items():
                if name[:2] != "__":
                    self.session.namespace[name] = value


def text_of_command(words):
    """Of the arguments of a program, or of a line for the shell."""
    return words if type(words) is str else " ".join(map(str, words))


def waited_for(error):
    """Why a command that the code waited for did not end, if that is the network."""
    at, text = error.__traceback__, ""
    while at:
        code, values = at.tb_frame.f_code, at.tb_frame.f_locals
        if code.co_filename == Notebook.run_shell.__code__.co_filename and code.co_name in ("run_shell", "output", "script"):
            text = values.get("text") or values["command"]
        elif at.tb_frame.f_globals.get("__name__") == "subprocess" and code.co_name == "wait":
            text = text_of_command(getattr(values.get("self"), "args", ""))
        at = at.tb_next
    return hints.no_network() if not hints.has_proxy() and CLIENTS.search(text) else None


def notebook(session):
    if session.notebook is None:
        session.notebook = Notebook(session)
    return session.notebook


# --- %time and %timeit ---
language = load("language")
REPEAT = 7
SHORT_S, LONG_S = 0.2, 4  # of one run of many loops, and of all runs of code that is slow
UNITS = ((1, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))
FUNCTION = "def timed(__loops__):\n for __loop__ in __loops__: pass"


def shown(seconds):
    """Three digits, as 1.23 µs."""
    seconds = round(seconds, 12)
    if seconds >= 60:
        return "%d min %d s" % divmod(round(seconds), 60)
    size, unit = next((one for one in UNITS if seconds >= one[0]), UNITS[-1])
    return "%.3g %s" % (seconds / size, unit)


def cpu_times():
    """(user, system) of this process and of the commands that it has waited for."""
    if getrusage is None:
        user, system, more_user, more_system, _ = times()
        return user + more_user, system + more_system
    own, commands = getrusage(RUSAGE_SELF), getrusage(RUSAGE_CHILDREN)
    return own.ru_utime + commands.ru_utime, own.ru_stime + commands.ru_stime


class Timed:
    """Writes how long its body has taken."""

    def __enter__(self):
        self.cpu, self.wall = cpu_times(), perf_counter()

    def __exit__(self, *_):
        wall = perf_counter() - self.wall
        user, system = (max(0, after - before) for before, after in zip(self.cpu, cpu_times()))
        SYS["stdout"].write("CPU times: user %s, sys: %s, total: %s\nWall time: %s\n" % (
            shown(user), shown(system), shown(user + system), shown(wall)))


def function_of(source, line, frame):
    """A function that runs source for each item of its argument. What it assigns is its own, as with IPython."""
    name = frame.f_code.co_filename
    body = language.python_tree("\n" * (line - 1) + source, name, 0).body
    tree = language.tree_of(FUNCTION, name, 0)
    tree.body[0].body[0].body = body or tree.body[0].body[0].body
    load("notebook").hide_columns(tree, (frame.f_lineno,))
    namespace = frame.f_globals
    if frame.f_locals is not namespace:
        namespace = {**namespace, **frame.f_locals}
    found = {}
    exec(compile(tree, name, "exec", 0, True), namespace, found)
    return found["timed"]


def once(function, loops):
    """The time of so many loops, without the collector's."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        started = perf_counter()
        enter(function, repeat(None, loops))
        return perf_counter() - started
    finally:
        if was_on:
            gc.enable()


def timeit(options, source, line, frame):
    chosen = {key: int(value) for key, value in re.findall(r"-([nr])\s*(\d+)", options)}
    function = function_of(source, line, frame)
    loops, count, taken = chosen.get("n", 0), chosen.get("r", 0), 0
    if not loops:
        for loops in (step * 10**power for power in range(10) for step in (1, 2, 5)):
            taken = once(function, loops)
            if taken >= SHORT_S:
                break
    count = count or max(1, int(min(REPEAT, LONG_S / taken if taken else REPEAT)))
    runs = [once(function, loops) / loops for _ in range(count)]
    mean = sum(runs) / len(runs)
    deviation = (sum((run - mean) ** 2 for run in runs) / len(runs)) ** 0.5
    SYS["stdout"].write("%s ± %s per loop (mean ± std. dev. of %d run%s, %s loop%s each)\n" % (
        shown(mean), shown(deviation), count, "" if count == 1 else "s", format(loops, ","), "" if loops == 1 else "s"))


# --- commands that fail: one sentence that saves a round ---

# Programs that fail in a sandbox without a network.
CLIENTS = Pattern(r"(?m)(?:^|[|&;(])\s*(?:(?:timeout\s+\S+|time|if|!|\w+=\S*)\s+)*(?:/\S*/)?(?:curl|wget|ssh|scp|sftp|ping|telnet|dig|nslookup|npx"
                  r"|git\s+(?:clone|fetch|pull|push|ls-remote)|(?:\S*python[\d.]*\s+-m\s+)?(?:uv\s+)?pip[\d.]*\s+(?:download|wheel|index)|(?:npm|yarn|pnpm|gem|cargo|go)\s+(?:i|ci|install|add|get|update|fetch))\b")
WITHOUT_PROXY = Pattern(r"\b(?:ssh|scp|sftp|ping|telnet|dig|nslookup)\b|\bgit@")
GIT = Pattern(r"(?m)(?:^|[|&;(])\s*git\s+(?!init\b|clone\b|config\b|version\b|help\b|--version)")
NO_REPOSITORY = ("no .git is in %s: if it belongs to a repository that begins above it, the user can give that directory as "
                 "--workspace")
LINKED = "the user can give that as --workspace, or with --mount; then git --git-dir=/data/%s%s --work-tree=. finds it"
PIP = Pattern(r"\bpip3?\s+install\b[^;|&]*?(?:\s(?:-e|--editable)\b|\s\.{0,2}/|\s\.(?:\[|\s|$))")
LOCAL_BUILD = "pip builds without a network: --no-build-isolation --no-deps; or without pip, sys.path.insert(0, DIRECTORY)"
TRACERS = Pattern(r"(?m)(?:^|[|&;(])\s*(?:\w+=\S*\s+)*(?:/\S*/)?(?:gdb|lldb|strace|ltrace|py-spy)\b")
LOCALHOST = Pattern(r"localhost|127\.0\.0\.1|\[?::1\b|0\.0\.0\.0")


def hint_for(session, text):
    """What the failure of a command of the shell may mean, or None."""
    gone = hints.without_directory(session)
    if gone:
        return gone
    if "container" not in session.options and LOCALHOST.search(text):
        last = re.split(r"[;\n]", re.sub(r"[;\s]*(?:\bexit\b[^;\n]*)?$", "", text))[-1]
        return hints.NO_LISTENER if LOCALHOST.search(last) and re.search(r"\b(?:curl|wget)\b", last) else None
    if CLIENTS.search(text):
        return hints.no_network() if not hints.has_proxy() or WITHOUT_PROXY.search(text) else hints.NOT_ALLOWED + hints.ask_for_host()
    if PIP.search(text):
        return LOCAL_BUILD
    found = GIT.search(text) and repository(session)
    if found:
        return found
    if TRACERS.search(text):
        return "the sandbox refuses ptrace, so gdb and strace cannot trace a process; faulthandler and pdb do without it"
    if "cow" in session.options and any(os.path.isdir(name) for names in re.findall(r"\bgit\s+mv\b([^;|&\n]*)", text) for name in names.split()[:-1]):
        return "where git says cross-device link, it cannot move a directory of the user's here: mv, then git add -A"
    return None


def repository(session):
    """Why git finds no repository where the user has one."""
    place = os.getcwd()
    while not os.path.lexists(join(place, ".git")):
        if place in (session.root, "/"):
            return NO_REPOSITORY % place if place != "/" and "workspace" in session.options else None
        place = dirname(place)
    try:
        with open(join(place, ".git"), encoding="utf-8", errors="replace") as file:
            found = re.match("gitdir: (.+)", file.read(5000))
    except OSError:  # as usual, it is a directory
        return None
    target = join(place, found[1]) if found else place
    if exists(target):
        return None
    if found[1][0] != "/":  # a submodule
        return NO_REPOSITORY % place
    main = target.partition("/.git/")[0]
    return "this is a linked worktree, and its repository, %r, is not in the sandbox: %s" % (
        main[:200], LINKED % (basename(main), target[len(main):]))
