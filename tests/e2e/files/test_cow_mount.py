"""--cow: the workspace is an overlay, and the user's directory stays as it is whatever code does; --cow-store."""
import fcntl
import hashlib
import json
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import unittest

from client import BINARY, COMMAND, DENY, SLOW, DEFAULTS, Case, Server, give_away, need_userns, run_cli
from container_level import CONTAINER
from overlay import cow_flags, need_memory, not_in_memory, remove

NOBODY = 65534
AS_NOBODY = ("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups")
IDS = int(pathlib.Path("/proc/self/uid_map").read_text().split()[2])
HAS_OTHERS = os.geteuid() == 0 and IDS > NOBODY
ALONE = IDS == 1  # root in a user namespace of one id
# Everything by which a file or a directory can be changed, through each kind of descriptor.
DAMAGE = r"""
import ctypes, mmap, os, shutil, subprocess
def attempt(call, *args, **more):
    try:
        return call(*args, **more)
    except OSError as error:
        return error.errno
def put(path, text="damage"):
    with open(path, "w") as file:
        file.write(text)
kept = os.open("kept", os.O_RDONLY)
attempt(os.open, f"/proc/self/fd/{kept}", os.O_RDWR | os.O_TRUNC)
attempt(os.chmod, "kept", 0o777), attempt(os.utime, "kept", (1, 1)), attempt(os.setxattr, "kept", "user.x", b"x")
attempt(os.fchmod, kept, 0o600), attempt(os.ftruncate, kept, 0)
attempt(os.link, "kept", "linked"), attempt(put, "linked")
both = os.open("mapped", os.O_RDWR)
memory = mmap.mmap(both, 0); memory[:6] = b"damage"; memory.flush()
os.write(os.open("sub", os.O_RDONLY | os.O_DIRECTORY) and os.open("sub/a", os.O_WRONLY | os.O_APPEND), b"damage")
top = os.open(".", os.O_PATH)
attempt(os.unlink, "gone", dir_fd=top), attempt(os.mkdir, "new"), attempt(os.rename, "renamed", "new/renamed")
print("EXDEV" if attempt(os.rename, "tree", "moved") == 18 else "no EXDEV")
shutil.move("tree", "moved"), os.symlink(OUTSIDE, "outside"), attempt(put, "outside/planted")
shutil.rmtree("sub"), os.mkdir("sub"), put("sub/other"), put(".git/hooks/pre-commit"), put(".vscode/settings.json")
subprocess.run(["sh", "-c", "echo damage | tee -a kept */* .[a-z]*/*; chmod -R 0 new; mv .vscode .v; rm -rf nothing"], capture_output=True)
print(sorted(os.listdir(".")), os.listdir("sub"), oct(os.stat(".").st_mode))
"""


def init_of(server):
    """The pid of the sandbox's init."""
    for path in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            name, fields = path.read_text().rsplit(")", 1)
        except (FileNotFoundError, ProcessLookupError):
            continue
        if name.endswith("(sandpiper-init") and int(fields.split()[1]) == server.pid:
            return int(path.parent.name)
    raise AssertionError("no init")


def state(directory):
    """A hash of all names below, with everything that code could change except the time of the last access."""
    found = hashlib.sha256()
    for top, directories, files in os.walk(directory):
        directories.sort()
        for path in [pathlib.Path(top), *(pathlib.Path(top) / name for name in sorted(files))]:
            about = path.lstat()
            found.update(repr((str(path), about.st_mode, about.st_uid, about.st_gid, about.st_nlink, about.st_ino, about.st_size,
                               about.st_mtime_ns, about.st_ctime_ns)).encode())
            found.update(os.readlink(path).encode() if path.is_symlink() else path.read_bytes() if path.is_file() else b"")
    return found.hexdigest()


class Cow(Case):
    owner = None

    def setUp(self):
        if CONTAINER:
            self.skipTest("isolation: an overlay needs namespaces")
        need_userns()
        self.temp = pathlib.Path(tempfile.mkdtemp(prefix="sp-cow-"))
        self.temp.chmod(0o755)
        self.addCleanup(remove, self.temp)
        self.work, self.outside, self.store = (self.temp / name for name in ("work", "outside", "store"))
        for name in ("work/sub", "work/tree/deep", "work/.git/hooks", "work/.vscode", "outside"):
            (self.temp / name).mkdir(parents=True)
        for name in ("kept", "mapped", "gone", "renamed", "sub/a", "tree/deep/b", ".vscode/settings.json"):
            (self.work / name).write_text(f"this is {name}\n")
        self.work.chmod(0o750)
        if self.owner is None:
            for path in (self.work, *self.work.rglob("*")):
                give_away(path)
        else:
            subprocess.run(["chown", "-R", f"{self.owner}:{self.owner}", str(self.temp)], check=True)

    def flags(self, *args):
        return "--workspace", str(self.work), *cow_flags(self, *args, owner=self.owner)

    def server(self, *args, **options):
        return Server(*self.flags(*args), **options)

    def in_store(self, *args, **options):
        return self.server("--cow-store", str(self.store), *args, **options)

    def damage(self, server):
        before = state(self.temp / "work"), state(self.outside)
        result = server.python(f"OUTSIDE = {str(self.outside)!r}\n{DAMAGE}")
        self.assert_ok(result)
        self.assertIn("EXDEV\n['.git', '.v', 'kept', 'linked', 'mapped', 'moved', 'new', 'outside', 'sub'] ['other'] 0o40750",
                      result.output)
        self.assertFalse(server.write("written", "by the tool").is_error)
        self.assertEqual((state(self.work), state(self.outside)), before)


class Untouched(Cow):
    def test_whatever_code_does(self):
        with self.server() as server:
            self.damage(server)
        self.assertEqual(sorted(path.name for path in self.temp.iterdir()), ["outside", "work"])

    def test_with_a_store(self):
        with self.in_store() as server:
            self.damage(server)

    def test_another_server_sees_the_directory_as_it_is(self):
        with self.server() as one, self.server() as other:
            self.assert_ok(one.python("open('mine', 'w').close()"))
            self.assert_prints(other.python("import os; print(os.path.exists('mine'), open('kept').read())"),
                               "False this is kept\n")

    def test_protected_names_are_writable_and_not_reported(self):
        with self.server() as server:
            self.assertFalse(server.write(".vscode/settings.json", "{}").is_error)
            result = server.python("open('.git/config', 'w').close()")
            self.assert_ok(result)
            self.assertNotIn("changed settings", result.text)

    def test_environment_of_git(self):
        with self.server() as server:
            self.assert_prints(server.python("import os; print(*(os.environ['GIT_' + name] for name in "
                                             "('OPTIONAL_LOCKS', 'CONFIG_COUNT', 'CONFIG_KEY_0', 'CONFIG_VALUE_0', 'CONFIG_KEY_1', 'CONFIG_VALUE_1', 'CONFIG_KEY_2', 'CONFIG_VALUE_2')))"),
                               "0 3 safe.directory * diff.autoRefreshIndex false core.checkStat minimal")
            if shutil.which("git"):
                subprocess.run(["git", "init", "-q", str(self.work)], check=True)
                before = state(self.work)
                self.assert_prints(server.python("!git status --porcelain | sort | tail -1"), "?? tree/")
                self.assertEqual(state(self.work), before)
                subprocess.run(["git", "add", "."], cwd=self.work, check=True)
                self.assert_prints(server.python("!git diff --name-only | wc -l"), "0")

    def test_a_writable_mount_is_written_through(self):
        with self.server("--mount", f"{self.outside}:out:rw", initialize=False) as server:
            self.assertIn("changes below other writable directories reach the user at once", server.initialize()["instructions"])
            self.assert_ok(server.python("open('/data/out/new', 'w').close()"))
            self.assertTrue((self.outside / "new").exists())

    def test_a_rename_of_a_directory_is_explained(self):
        with self.server() as server:
            self.assertIn("can only be moved as a copy: shutil.move, or mv", server.python("import os; os.rename('tree', 'moved')").text)

    def test_files_count_for_the_disk_and_not_for_the_host(self):
        need_memory()
        (self.work / "big").write_bytes(bytes(4 << 20))
        give_away(self.work / "big")
        with self.server("--disk", "8M") as server:
            result = server.python("for name in 'ab': open(name, 'wb').write(bytes(6 << 20))")
            self.assertIn("No space left", result.text)
            self.assertRegex(result.text, "Hint: the disk of 8 MiB, which all sessions share, is full; .* --disk, or add --cow-store")
            self.assert_ok(server.python("import os; os.remove('a'), os.remove('b')"))
            result = server.python("open('a', 'wb').write(bytes(6 << 20)); open('big', 'r+b')")
            self.assertRegex(result.text, "Hint: a file of the workspace is copied .* --disk, or add --cow-store")
            self.assert_prints(server.python("print(open('kept').read(), end='')"), "this is kept")


@unittest.skipUnless(HAS_OTHERS, "root: changes to another user")
class Ordinary(Cow):
    """The same for an ordinary user's server, with a copy of the program that the user can read."""

    owner = NOBODY

    def setUp(self):
        super().setUp()
        shutil.copy(BINARY, self.temp / "sandpiper")

    def command(self):
        return ("env", f"HOME={self.temp}", *AS_NOBODY, str(self.temp / "sandpiper"), *DEFAULTS)

    def test_whatever_code_does(self):
        with self.server(command=self.command()) as server:
            self.damage(server)

    def test_with_a_store(self):
        with self.in_store(command=self.command()) as server:
            self.damage(server)
        with self.in_store(command=self.command()) as server:
            self.assert_prints(server.python("import os; print(os.listdir('sub'))"), "['other']")
        self.assertEqual({path.lstat().st_uid for path in self.store.rglob("*")}, {NOBODY})

    def test_directory_with_something_mounted_below_is_refused(self):
        done = subprocess.run(["unshare", "-m", "sh", "-c", 'mount -t tmpfs none "$1" && shift && exec "$@"', "sh",
                               str(self.work / "sub"), *self.command()[:-len(DEFAULTS)], "run", "--workspace", str(self.work), "--cow", "-c", "1"],
                              capture_output=True, text=True, timeout=60 * SLOW, env={"PATH": os.environ["PATH"]})
        self.assertEqual(done.returncode, 125, done.stderr)
        self.assertIn(f"--cow: something is mounted at {self.work}/sub, and only root can leave that out", done.stderr)

    def test_files_of_another_group(self):
        """The kernel keeps the group when it copies a file up, and the sandbox has one group."""
        os.chown(self.work / "kept", NOBODY, 12345)
        with self.server(command=self.command()) as server:
            result = server.python("open('kept', 'a')")
            self.assertIn("put a copy of it in its place", result.text)
            self.assert_prints(server.python("import os, shutil; shutil.copy('kept', 'new'); os.remove('kept'); os.rename('new', 'kept'); "
                                             "print(open('kept', 'a').tell())"), "13")
        os.chown(self.work, NOBODY, 12345)
        facts = {row["fact"]: row["text"] for row in json.loads(subprocess.run(
            [*self.command()[:-len(DEFAULTS)], "doctor", "--json", "--workspace", str(self.work), "--cow"],
            capture_output=True, env={"PATH": os.environ["PATH"]}).stdout)["facts"]}
        self.assertIn("code cannot change files of group 12345", facts["group"])

    def test_a_store_that_others_can_write_to_is_refused(self):
        self.store.mkdir()
        done = run_cli("run", "--workspace", str(self.work), "--cow", "--cow-store", str(self.store), "-c", "1")
        self.assertEqual(done.returncode, 0, done.stderr)
        shutil.chown(self.store, NOBODY)
        done = run_cli("run", "--workspace", str(self.work), "--cow", "--cow-store", str(self.store), "-c", "1")
        self.assertEqual(done.returncode, 125, done.stderr)
        self.assertIn(b"name a directory that only its owner can write to", done.stderr)


class Layers(Cow):
    def test_code_cannot_reach_them(self):
        """No path leads to them, no descriptor is inherited, and mountinfo names nothing of the host."""
        with self.in_store() as server:
            result = server.python(
                "import os, subprocess\n"
                "line, = (line for line in open('/proc/self/mountinfo') if ' /work ' in line and ' - overlay ' in line)\n"
                "print(line)\n"
                "for name in ('/run/cow/lower', '/run/cow/changes'):\n"
                "    print(os.listdir(name))\n"
                "print(subprocess.run(['sh', '-c', 'ls -l /proc/*/fd 2>/dev/null | grep -c -e /upper -e /lower'], "
                "capture_output=True, text=True).stdout)\n"
                "print([name for name in os.listdir('/proc/self/fd') if os.path.isdir(f'/proc/self/fd/{name}') and "
                "os.readlink(f'/proc/self/fd/{name}') not in ('/work', f'/proc/{os.getpid()}/fd')])\n")
            self.assert_ok(result)
            line, *rest = result.output.split("\n")
            self.assertIn("lowerdir=run/cow/lower,upperdir=run/cow/changes/upper", line)
            self.assertNotIn(str(self.temp), result.output)
            self.assertEqual([row for row in rest if row], ["[]", "[]", "0", "[]"], result.output)
            for call in ("os.setxattr('/work', 'trusted.overlay.opaque', b'y')", "os.mknod('w', 0o020000, 0)",
                         "os.listdir('/proc/1/root')",
                         "os.readlink('/proc/1/fd/6')", "os.listdir('/proc/1/fd/6')", "os.listdir('/proc/1/fd/7')"):
                self.assertRegex(server.python(f"import os; {call}").text, "PermissionError|Operation not permitted", call)

    def test_init_has_them(self):
        """The descriptors that init starts with: upper and lower layer, and the store's directory."""
        def held(server):
            self.assert_ok(server.python("1"))
            at = pathlib.Path(f"/proc/{init_of(server)}/fd")
            # Without a store the number is free for what init opens later, which is no directory.
            return [(at / number).stat().st_ino if (at / number).is_dir() else None for number in ("6", "7", "8")]
        if os.geteuid() != 0 or ALONE:
            self.skipTest("root: reads another process's descriptors")
        if not not_in_memory():
            with self.server() as server:
                upper, lower, store = held(server)
            self.assertEqual((lower, store), (self.work.stat().st_ino, None))
            self.assertNotIn(upper, (lower, None))
        with self.in_store() as server:
            layers, = self.store.glob("*/layers")
            self.assertEqual(held(server), [(layers / "upper").stat().st_ino, self.work.stat().st_ino, layers.stat().st_ino])


class Store(Cow):
    def test_changes_survive_the_server(self):
        with self.in_store() as server:
            self.assert_ok(server.python("import os, shutil; open('new', 'w').write('x'); os.remove('gone'); shutil.rmtree('sub'); "
                                         "os.mkdir('sub')"))
        self.assertEqual(self.store.stat().st_mode & 0o777, 0o700)
        (self.work / "later").write_text("made by the user\n")
        before = state(self.work)
        with self.in_store(initialize=False) as server:
            self.assertIn("what is not applied stays for the next server", server.initialize()["instructions"])
            self.assert_prints(server.python("import os; print(sorted(name for name in os.listdir('.') if name[0] != '.'), "
                                             "os.listdir('sub'))"),
                               "['kept', 'later', 'mapped', 'new', 'renamed', 'sub', 'tree'] []")
        self.assertEqual(state(self.work), before)

    def test_changes_survive_a_kill_of_the_server(self):
        for number in range(4):
            server = self.in_store(check=False)
            with server:
                result = server.python("import os, subprocess; print(sorted(name for name in os.listdir('.') if name[0] == 'n'))")
                self.assert_prints(result, str([f"n{i}" for i in range(number)]))
                self.assert_ok(server.python(
                    f"open('n{number}', 'w').close()\n"
                    "subprocess.Popen(['sh', '-c', 'while :; do mkdir -p d/e; echo x >> mapped; rm -rf d; done'])"))
                server.process.kill()
                server.process.wait()

    def test_a_sandbox_waits_until_the_store_is_free(self):
        """A killed server's sandbox may still use it: two overlays on one upper layer are undefined."""
        with self.in_store() as server:
            self.assert_ok(server.python("1"))
        layers, = self.store.glob("*/layers")
        fd = os.open(layers, os.O_RDONLY)
        self.addCleanup(os.close, fd)
        fcntl.flock(fd, fcntl.LOCK_EX)
        with self.in_store() as server:
            call = server.start_call("run_python", code="print(1)")
            self.assertIn("uses the store: try again", server.finish_call(call).text)
            call = server.start_call("run_python", code="print(2)")
            self.assertTrue(server.silent(0.5))
            fcntl.flock(fd, fcntl.LOCK_UN)
            self.assert_prints(server.finish_call(call), "2")

    def test_each_directory_has_its_own(self):
        other = self.temp / "other"
        other.mkdir()
        give_away(other)
        with self.in_store() as server:
            self.assert_ok(server.python("open('new', 'w').close()"))
            with Server("--workspace", str(other), "--cow", "--cow-store", str(self.store)) as second:
                self.assert_prints(second.python("import os; print(os.listdir('.'))"), "[]")
        self.assertEqual({(path / "workspace").read_text() for path in self.store.iterdir()}, {str(self.work), str(other)})

    def test_a_second_server_is_refused_where_changes_cannot_be_in_memory(self):
        with self.in_store():
            with self.in_store(wrap=(*DENY, "fsetxattr:EOPNOTSUPP", "--")) as second:
                result = second.python("open('new', 'w').close()")
                self.assertTrue(result.is_error, result.text)
                self.assertIn("another server uses the store", result.text)
                self.assertIn("end that server, or name another directory with --cow-store", result.text)
        self.assertFalse((self.work / "new").exists())

    def test_a_second_server_keeps_its_changes_in_memory_and_says_so(self):
        need_memory()
        said = "another server uses the store"
        log = self.temp / "log"
        with self.in_store() as first:
            self.assert_ok(first.python("open('first', 'w').close()"))
            with log.open("w") as stderr, self.in_store(initialize=False, stderr=stderr) as second:
                self.assertIn(said, second.initialize()["instructions"])
                result = second.python("import os; open('second', 'w').close(); print(os.path.exists('first'))")
                self.assertIn(said, result.text)
                self.assertEqual(result.lines[0], "False")
                self.assertNotIn(said, second.python("1").text)
                rows = {row["fact"]: row["text"] for row in json.loads(
                    run_cli("doctor", "--json", "--workspace", str(self.work), "--cow", "--cow-store", str(self.store)).stdout)["facts"]}
                self.assertIn("another server has locked the store", rows["changes"])
            self.assertIn(said, log.read_text())
        with self.in_store(initialize=False) as third:
            self.assertNotIn(said, third.initialize()["instructions"])
            self.assert_prints(third.python("import os; print(os.path.exists('first'), os.path.exists('second'))"), "True False")

    def test_the_sandbox_can_start_again(self):
        with self.in_store() as server:
            self.assert_ok(server.python("open('new', 'w').close()"))
            os.kill(init_of(server), signal.SIGKILL)
            self.assertRegex(server.python("1").text + server.python("1").text, "state: lost|variables lost")
            self.assert_prints(server.python("import os; print(os.path.exists('new'))"), "True")


class Refused(Cow):
    def refusal(self, *args, status=2):
        done = run_cli("run", *args, "-c", "print('ran')")
        self.assertEqual((done.returncode, done.stdout), (status, b""), done.stderr)
        text = done.stderr.decode()
        self.assertEqual(text.count("\n"), 1, text)
        return text

    def test_mistakes_in_the_flags(self):
        work = str(self.work)
        for args, words in (
                (("--cow",), "add --workspace DIR"),
                (("--workspace", work, "--cow-store", str(self.store)), "add --cow"),
                (("--workspace", work, "--cow", "--cow-store", f"{work}/store"), "overlap: name a directory outside"),
                (("--workspace", work, "--cow", "--cow-store", str(self.temp)), "overlap: name a directory outside"),
                (("--workspace", work, "--cow", "--isolation", "container"), "--cow needs a sandbox with namespaces"),
                (("--workspace", work, "--cow", "--cow-store", f"{self.temp}/no/store"), "No such file or directory"),
                (("--workspace", work, "--cow", "--cow-store", "/usr/lib/store"), "the system runs from it"),
                (("--workspace", work, "--cow", "--cow-store", f"{self.outside}/store", "--mount", str(self.outside)),
                 "it overlaps the directory of --cow-store"),
                (("--workspace", work, "--cow", "--cow-store", f"{self.outside}/store", "--mount", f"{self.outside}:out:rw"),
                 "it overlaps the directory of --cow-store"),
                (("--undo-files", "some"), "--undo-files takes a size")):
            with self.subTest(args=args):
                self.assertIn(words, self.refusal(*args))
        self.assertEqual(sorted(path.name for path in self.temp.iterdir()), ["outside", "work"])

    def test_a_symlink_cannot_lead_the_store_into_the_workspace(self):
        (self.temp / "link").symlink_to(self.work)
        self.assertIn("overlap", self.refusal("--workspace", str(self.work), "--cow", "--cow-store", f"{self.temp}/link/store"))

    def test_a_server_with_a_mistake_runs_nothing(self):
        with Server("--cow", initialize=False) as server:
            self.assertIn("add --workspace DIR", server.initialize()["instructions"])
            self.assertTrue(server.python("print('ran')").is_error)

    def test_kernels_and_levels_that_cannot(self):
        """A tmpfs without user attributes (before Linux 6.6), and a fallback to the level without namespaces."""
        for call, args, words in (("fsetxattr:EOPNOTSUPP", (), "since Linux 6.6: name a directory on a disk with --cow-store"),
                                  ("pivot_root:EPERM", ("--isolation", "best"), "--cow needs a sandbox with namespaces")):
            done = subprocess.run([*DENY, call, "--", *COMMAND, "run", "--workspace", str(self.work), "--cow", *args, "-c", "print('ran')"],
                                  capture_output=True, text=True, timeout=60 * SLOW)
            self.assertEqual((done.returncode, done.stdout), (125, ""), done.stderr)
            self.assertIn(words, done.stderr)
            self.assertEqual(done.stderr.count("\n"), 1, done.stderr)

    def test_sizes_of_undo_files(self):
        for size in ("0", "1K", "2G"):
            self.assertEqual(run_cli("run", "--undo-files", size, "-c", "1").returncode, 0)

    def test_a_file_system_that_cannot_hold_changes(self):
        """ramfs has no extended attributes, and an overlay cannot be another one's upper layer."""
        if os.geteuid() != 0:
            self.skipTest("root: needed to mount")
        for kind, options in (("ramfs", "mode=0755"), ("overlay", f"lowerdir={self.outside},upperdir=$1/up,workdir=$1/work")):
            script = (f'mount -t tmpfs none "$1" && mkdir "$1/up" "$1/work" "$1/fs" && mount -t {kind} -o "{options}" none "$1/fs" && '
                      'shift && exec "$@"')
            self.store.mkdir(exist_ok=True)
            done = subprocess.run(
                ["unshare", "-m", "sh", "-c", script, "sh", str(self.store), *COMMAND, "run", "--workspace", str(self.work), "--cow",
                 "--cow-store", f"{self.store}/fs/in", "-c", "print('ran')"], capture_output=True, text=True, timeout=60 * SLOW)
            self.assertEqual((done.returncode, done.stdout), (125, ""), done.stderr)
            self.assertIn("name a directory on ext4, XFS or btrfs with --cow-store", done.stderr)
            self.assertNotIn("--isolation=container", done.stderr)


@unittest.skipUnless(os.geteuid() == 0, "root: needed to mount")
class Below(Cow):
    def test_what_is_mounted_below_is_not_shown_and_doctor_names_it(self):
        script = 'mount -t tmpfs none "$1" && touch "$1/hidden" && shift && "$@"'
        def run(*args):
            return subprocess.run(["unshare", "-m", "sh", "-c", script, "sh", str(self.work / "sub"), *COMMAND, args[0],
                                   *self.flags(), *args[1:]], capture_output=True, text=True, timeout=60 * SLOW)
        done = run("run", "-c", "import os; print(os.listdir('sub'))")
        self.assertEqual(done.stdout, "['a']\n", done.stderr)
        facts = {row["fact"]: row for row in json.loads(run("doctor", "--json").stdout)["facts"]}
        self.assertIn(f"{self.work}/sub", facts["hidden"]["text"])
        self.assertTrue(facts["hidden"]["warning"])


if __name__ == "__main__":
    unittest.main()
