"""Sessions are separate: code of one affects neither the zygote nor init nor other sessions.

Where Landlock cannot scope signals (before Linux 6.12) init checks them, so each test runs with Landlock and, where the
isolation level allows it, without.
"""
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))

from client import BINARY, COMMAND, DENY, Case, Server, is_denied, need_userns  # noqa: E402
from container_level import CONTAINER  # noqa: E402
from seen import sees_writes  # noqa: E402
from traces import oldest_of  # noqa: E402

PRELUDE = pathlib.Path(__file__).with_name("prelude.py").read_text()
LANDLOCK = ("landlock_create_ruleset", "landlock_add_rule", "landlock_restrict_self")

# Plants modules wherever a starting interpreter may look: they must not affect later sessions.
PLANT = """
import sys
import tempfile
VERSION = 'python%d.%d' % sys.version_info[:2]
MARK = "import builtins; builtins.PLANTED = (builtins.PLANTED if hasattr(builtins, 'PLANTED') else ()) + (__name__,)\\n"
home = os.path.expanduser('~')
places = [home + '/.local/lib/' + VERSION + '/site-packages', home + '/.local/lib/' + VERSION, home, os.getcwd(),
          os.environ['TMPDIR'], home + '/.config', os.environ['TMPDIR'] + '/lib/' + VERSION + '/site-packages']
for place in places:
    os.makedirs(place, exist_ok=True)
    for name in ('usercustomize', 'sitecustomize', '_sandpiper', 'zzz_preloaded'):
        write(place + '/' + name + '.py', MARK.encode())
    write(place + '/evil.pth', b"import builtins; builtins.PLANTED = ('pth',)\\n")
    write(place + '/pyvenv.cfg', b'home = ' + place.encode() + b'\\ninclude-system-site-packages = true\\n')
write(home + '/.pythonrc.py', MARK.encode())
"""
PLANTED = "import builtins; print(getattr(builtins, 'PLANTED', 'clean'))"
# How a session starts a Python, directly and by other programs.
CHILDREN = """
import multiprocessing, os, subprocess, sys
CODE = "import builtins; print(getattr(builtins, 'PLANTED', 'clean'))"
os.chdir("/usr")
for command in ([sys.executable, "-c", CODE], ["python", "-c", CODE], ["python3", "-c", CODE], ["sh", "-lc", 'python3 -c "$0"', CODE]):
    print(subprocess.run(command, capture_output=True, text=True).stdout, end="")
worker = multiprocessing.get_context("spawn").Process(target=exec, args=(CODE,))
worker.start(); worker.join()
"""
# The control for these places: a Python that gets no environment of the session's does import from there.
CONTROL = """
import subprocess
print(subprocess.run([sys.executable, '-c', 'import builtins; print(builtins.PLANTED[-1], end="")'], capture_output=True,
                     text=True, cwd='/', env={'HOME': home}).stdout)
"""
OTHERS = "[p for p in (ZYGOTE, OTHER, os.getppid()) if p]"
TGKILL, TKILL, QUEUE = "{'x86_64': 234, 'aarch64': 131}", "{'x86_64': 200, 'aarch64': 130}", "{'x86_64': 129, 'aarch64': 138}"
WAYS = f"""
ARCH = platform.machine()
def info(number): return struct.pack('iii', number, 0, -1) + bytes(116)
def pidfd(pid, number): signal.pidfd_send_signal(os.pidfd_open(pid), number)
WAYS = [os.kill, lambda pid, n: os.kill(-os.getpgid(pid) if os.getpgid(pid) not in (0, 1, os.getpgid(0)) else pid, n),
        lambda pid, n: syscall({TKILL}[ARCH], pid, n), lambda pid, n: syscall({TGKILL}[ARCH], pid, pid, n),
        lambda pid, n: syscall({QUEUE}[ARCH], pid, n, info(n)), pidfd]
"""


class Sessions(Case):
    wrap = ()

    def setUp(self):
        need_userns()
        self.server = Server("--timeout", "30", wrap=self.wrap)
        self.addCleanup(self.server.__exit__, None, None, None)
        self.server.must_be_contained()
        result = self.server.python("kept = 'kept'; import os; print(os.getpid())", session="other")
        self.assert_ok(result)
        other = int(result.output.split()[-1])
        self.zygote = oldest_of(self.server)[1]
        known = (self.zygote, other) if CONTAINER else (2, other)
        names = "ZYGOTE, OTHER = %d, %d\n" % known
        self.assert_ok(self.server.python(PRELUDE + WAYS + names))

    def assert_nothing_happened(self):
        self.assertEqual(oldest_of(self.server)[1], self.zygote)
        self.assert_prints(self.server.python("print(kept)", session="other"), "kept")

    def denied(self, code):
        result = self.server.python(code)
        self.assert_ok(result)
        lines = [line.removeprefix("Out: ") for line in result.output.splitlines() if line]
        self.assertTrue(lines, result.text)
        for line in lines:
            self.assertRegex(line, r"^denied (EPERM|EACCES|ESRCH|ENOENT|EROFS)$", result.text)

    def test_signals_to_others(self):
        self.denied(f"for pid in {OTHERS}:\n"
                    "    for way in WAYS:\n"
                    "        for number in (0, signal.SIGSTOP, signal.SIGTERM, signal.SIGKILL): attempt(way, pid, number)")
        self.assert_nothing_happened()

    def test_signals_to_others__control(self):
        """The session and its children receive each of them."""
        result = self.server.python(
            "for way in WAYS:\n    pid = os.fork()\n    if pid == 0: os.setpgid(0, 0); time.sleep(600)\n"
            "    while os.getpgid(pid) != pid: time.sleep(0.001)\n"
            "    way(pid, signal.SIGTERM); print(os.WTERMSIG(os.waitpid(pid, 0)[1]))\n"
            "got = []; signal.signal(signal.SIGUSR2, lambda *a: got.append(1))\n"
            "for way in WAYS: way(os.getpid(), signal.SIGUSR2); time.sleep(0.01)\n"
            "signal.raise_signal(signal.SIGUSR2); os.kill(0, 0); print(len(got))")
        self.assertEqual(result.output.split(), ["15"] * 6 + ["7"], result.text)

    def test_signals_to_all(self):
        """kill(-1) reaches only the session's own processes."""
        self.server.python("os.kill(-1, signal.SIGKILL)")
        self.assert_nothing_happened()
        self.assert_prints(self.server.python("print(6 * 7)", fresh=True), "42")

    def test_memory_and_descriptors_of_others(self):
        self.denied(f"for pid in {OTHERS[:-1].replace('OTHER, ', '')}]:\n    for name in ('mem', 'maps', 'environ', 'fd/3', 'root', 'cwd', 'exe'):\n"
                    "        attempt(os.open, f'/proc/{pid}/{name}', os.O_RDONLY if name != 'mem' else os.O_RDWR)")
        self.assert_nothing_happened()

    def test_terminals_of_others(self):
        made = self.server.python("import os\ntry: pair = os.openpty(); print(os.ttyname(pair[1]))\nexcept OSError: print('none')",
                                  session="other").output
        if made == "none":
            self.skipTest("terminals: there are none here")
        self.denied(f"attempt(os.open, {made!r}, os.O_RDWR); attempt(os.chmod, {made!r}, 0o600)\n"
                    f"for pid in {OTHERS[:-1].replace('OTHER, ', '')}]:\n    for fd in range(3, 9):\n"
                    "        attempt(os.open, f'/proc/{pid}/fd/{fd}', os.O_RDWR)")
        self.assert_prints(self.server.python("import os\nos.write(pair[1], b'mine'); print(os.read(pair[0], 9))", session="other"), "b'mine'")

    def test_a_replacement_zygote_imports_no_modules_of_code(self):
        self.assert_ok(self.server.python(PLANT))
        os.kill(self.zygote, signal.SIGKILL)  # as the kernel does when memory runs out
        until = time.monotonic() + 60
        while oldest_of(self.server)[1] == self.zygote and time.monotonic() < until:
            time.sleep(0.01)
        for where in ({"fresh": True}, {"session": "new"}):
            self.assert_prints(self.server.python(PLANTED, **where), "clean")
        self.assert_prints(self.server.python("print(kept)", session="other"), "kept")

    def test_children_of_other_sessions_import_no_modules_of_code(self):
        """Python reads nothing from the home, which all sessions share, as it starts."""
        self.assert_ok(self.server.python(PLANT))
        for where in ({"fresh": True}, {"session": "other"}, {}):
            result = self.server.python(CHILDREN, **where)
            self.assertEqual(result.output.split(), ["clean"] * 5, result.text)

    def test_a_replacement_zygote_imports_no_modules_of_code__control(self):
        self.assert_prints(self.server.python(PLANT + CONTROL), "usercustomize")


class Preloaded(Case):
    """Preloaded modules read their settings before code can write them."""

    def test_only_the_first_zygote_preloads(self):
        need_userns()
        with Server("--preload", "wave") as server:
            self.assert_prints(server.python("import sys; print('wave' in sys.modules)"), "True")
            zygote = oldest_of(server)[1]
            os.kill(zygote, signal.SIGKILL)
            while oldest_of(server)[1] == zygote:
                time.sleep(0.01)
            self.assert_prints(server.python("import sys; print('wave' in sys.modules)", fresh=True), "False")
            self.assert_prints(server.python("import wave; print('there')", fresh=True), "there")


# Each of these, if it worked, would replace an overflow file. NEXT: the name of the next one.
FORGE = """
def scribble(path, flags=os.O_WRONLY):
    fd = os.open(path, flags); os.write(fd, b'forged'); os.close(fd)
def swap(path):
    write(TMP + '/forged.txt', b'forged'); os.rename(TMP + '/forged.txt', path)
def aside(path):
    os.rename(os.path.dirname(path), TMP + '/aside'); os.mkdir(os.path.dirname(path)); write(path, b'forged')
def by_link(path):
    os.link(path, TMP + '/linked.txt'); os.chmod(TMP + '/linked.txt', 0o600); scribble(TMP + '/linked.txt')
def by_descriptor(path):
    scribble(f"/proc/self/fd/{os.open(path, os.O_RDONLY)}")
def symlink(path):
    os.unlink(path); os.symlink(TMP + '/forged.txt', path)
def mode(path):
    os.chmod(path, 0o600); scribble(path)
def directory_mode(path):
    os.chmod(os.path.dirname(path), 0o777); swap(path)
def mapped(path):
    import mmap
    fd = os.open(path, os.O_RDWR); mmap.mmap(fd, 6)[:] = b'forged'
WAYS = [scribble, lambda path: scribble(path, os.O_RDWR | os.O_TRUNC), swap, aside, by_link, by_descriptor, symlink, mode,
        directory_mode, mapped, os.unlink, lambda path: os.truncate(path, 6), lambda path: os.utime(path, (1, 1)),
        lambda path: os.mkdir(NEXT), lambda path: write(NEXT, b'forged'), lambda path: os.symlink(path, NEXT),
        lambda path: os.open(os.path.dirname(path), os.O_TMPFILE | os.O_RDWR), lambda path: os.rmdir(os.path.dirname(path))]
"""


class Outputs(Case):
    """Code cannot forge the overflow file that a result names."""

    wrap = ()

    def setUp(self):
        need_userns()
        self.server = Server(wrap=self.wrap)
        self.addCleanup(self.server.__exit__, None, None, None)
        self.server.must_be_contained()

    def long_output(self, letter, **where):
        result = self.server.python(f"for _ in range(3000): print({letter!r} * 99)", **where)
        self.assert_ok(result)
        return re.search(r"is in (/\S+?/output-\d+\.txt)", result.text)[1]

    def assert_whole(self, path, letter):
        text = self.server.read(path).text
        self.assertIn(letter * 99, text)
        self.assertNotIn("forged", text)

    def test_code_cannot_change_it(self):
        path = self.long_output("w")
        following = re.sub(r"\d+\.txt$", lambda m: "%d.txt" % (int(m[0][:-4]) + 1), path)
        names = f"PATH, NEXT, TMP = {path!r}, {following!r}, os.environ['TMPDIR']\n"
        for where in ({}, {"session": "other"}):
            result = self.server.python(PRELUDE + names + FORGE + "for way in WAYS: attempt(way, PATH)", **where)
            self.assert_ok(result)
            lines = [line.removeprefix("Out: ") for line in result.output.splitlines() if line]
            for line in lines:
                self.assertRegex(line, r"^denied (EPERM|EACCES|EROFS|EBUSY|EXDEV|ENOENT|EEXIST)$", result.text)
            self.assertEqual(len(lines), 18)
            self.assert_whole(path, "w")
        for name in (path, following, following + "/below"):
            self.assertTrue(self.server.write(name, "forged").is_error)
        self.assert_whole(path, "w")
        self.assertEqual(self.long_output("x", session="other"), following)
        self.assert_whole(following, "x")

    def test_code_cannot_change_it__control(self):
        """Code can read the file, and each of these ways changes a file of its own."""
        path = self.long_output("w")
        self.assert_prints(self.server.python(f"print(open({path!r}).read(99))"), "w" * 99)
        result = self.server.python(
            PRELUDE + FORGE + "TMP = os.environ['TMPDIR']\nfor way in WAYS[:10]:\n    directory = TMP + '/own%d' % WAYS.index(way)\n"
            "    os.mkdir(directory); write(directory + '/a.txt', b'as it was'); write(TMP + '/forged.txt', b'forged')\n"
            "    way(directory + '/a.txt'); print(read(directory + '/a.txt')[:6])\n    import shutil; shutil.rmtree(TMP + '/aside', True)\n"
            "    if os.path.exists(TMP + '/linked.txt'): os.unlink(TMP + '/linked.txt')")
        self.assertEqual(result.output.split(), ["b'forged'"] * 10, result.text)

    def test_old_output_files_are_removed(self):
        """At most sixteen stay; the others free the disk, a moment after the result that comes with the next one."""
        paths = [self.long_output(chr(97 + number)) for number in range(20)]
        directory = paths[0].rpartition("/")[0]
        self.assert_prints(self.server.python(
            f"import os, time; end = time.monotonic() + 20\nwhile len(os.listdir({directory!r})) > 16 and time.monotonic() < end: pass\n"
            f"print(len(os.listdir({directory!r})))"), "16")
        self.assert_whole(paths[-1], "t")
        self.assertTrue(self.server.read(paths[0]).is_error)


@unittest.skipIf(CONTAINER, "without Landlock no code runs in this isolation level")
class WithoutLandlock(Sessions):
    wrap = (*DENY, *LANDLOCK, "--")


@unittest.skipIf(CONTAINER, "without Landlock no code runs in this isolation level")
class OutputsWithoutLandlock(Outputs):
    wrap = (*DENY, *LANDLOCK, "--")


# Holds 1,500 descriptors in flight, as code of another sandbox can. Root's own would not count: CAP_SYS_RESOURCE.
FLOOD = """
import array, resource, socket, sys
hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
pairs = [socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM) for _ in range(4)]
for one, _ in pairs:
    for _ in range(4):
        one.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [0] * 100))])
print(flush=True)
sys.stdin.read()
"""
ANOTHER_USER = 61234  # with no programs but the test's: the kernel counts by user


@unittest.skipIf(os.geteuid() != 0, "root: the kernel counts by user, and only root can be another one")
class InFlight(Case):
    def test_descriptors_of_another_sandbox_stop_no_session(self):
        become = ("prlimit", "--nofile=1024:", "setpriv", f"--reuid={ANOTHER_USER}", f"--regid={ANOTHER_USER}", "--clear-groups")
        with tempfile.TemporaryDirectory() as directory:
            os.chmod(directory, 0o755)
            binary = shutil.copy(BINARY, directory)
            env = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "TMPDIR": "/tmp"}
            if subprocess.run([*become, "unshare", "-Ur", binary, "--version"], capture_output=True).returncode != 0:
                self.skipTest("userns: refused to another user")
            for level in ("full", "container")[CONTAINER:]:
                workspace = os.path.join(directory, level)
                os.mkdir(workspace)
                os.chown(workspace, ANOTHER_USER, ANOTHER_USER)
                args = ("--isolation", level, "--workspace", workspace)
                with self.subTest(level), Server(*args, env=env, wrap=become, command=(binary,)) as early, \
                        subprocess.Popen([*become, sys.executable, "-Ic", FLOOD], stdin=subprocess.PIPE,
                                         stdout=subprocess.PIPE) as flood:
                    early.python("import os\nkept = 1")
                    self.assertEqual(flood.stdout.readline(), b"\n")
                    self.assert_prints(early.python("print(2)", session="another"), "2")
                    crashed = early.python("os._exit(1)")
                    self.assert_state_after_kill(crashed)
                    after = early.python("print(kept)")
                    if not sees_writes():
                        self.assertIn("undo will not bring back files: connecting to what keeps them failed", after.text)
                    with Server(*args[:2], env=env, wrap=become, command=(binary,)) as late:
                        result = late.python("import resource\nprint(resource.getrlimit(resource.RLIMIT_NOFILE))")
                        self.assert_prints(result, "(512, 512)")
                    flood.stdin.close()
                    self.assertEqual(flood.wait(), 0)
                    again = early.python("os._exit(1)")
                    self.assertNotIn("undo will not", early.python("print(kept)").text, again.text)


@unittest.skipIf(CONTAINER, "without Landlock no code runs in this isolation level")
class Report(Case):
    def test_signals_that_nobody_checks_are_reported(self):
        need_userns()
        if is_denied("listener"):
            self.skipTest("listener: taken away already")
        for words, passes in (((*LANDLOCK, "listener"), True), (LANDLOCK, False)):
            wrap = (*DENY, *words, "--")
            with self.subTest(words=words), Server(wrap=wrap) as server:
                result = server.python("import glob, os\nzygote = next(int(path.split('/')[2]) for path in glob.glob('/proc/[0-9]*/comm') "
                                       "if 'sp-zygote' in open(path).read())\n"
                                       "try: print(os.kill(zygote, 0))\nexcept OSError: print('refused')")
                self.assert_prints(result, "None" if passes else "refused")
                said = subprocess.run([*wrap, *COMMAND, "doctor"], capture_output=True, text=True).stdout
                self.assertEqual("signals between sessions" in " ".join(said.split()), passes, said)


if __name__ == "__main__":
    unittest.main()
