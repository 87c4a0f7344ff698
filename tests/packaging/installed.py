"""Tests of the installed Debian package. test_deb.py runs them as root in a disposable virtual machine:
tests/e2e/tap.py tests/packaging/installed.py CASE...

The environment variable PACKAGES names a directory with old.deb and new.deb, the same program with two versions.
"""
import grp
import json
import os
import pathlib
import pwd
import re
import signal
import socket
import subprocess
import time
import unittest

from client import SLOW, Server

PACKAGES = pathlib.Path(os.environ["PACKAGES"])
SOCKET = "/run/sandpiper.sock"
USER = 1000
LINK = pathlib.Path("/etc/apparmor.d/sandpiper")
LOADED = pathlib.Path("/sys/kernel/security/apparmor/profiles")
RESTRICTED = pathlib.Path("/proc/sys/kernel/apparmor_restrict_unprivileged_unconfined")
HELLO = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}


def said(*command):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode:
        raise AssertionError(f"{command}: {done.returncode}\n{done.stdout}")
    return done.stdout


def until(what, seconds=60):
    """Waits for what() to be true; the caller's assertion afterwards reports why it is not."""
    end = time.monotonic() + seconds * SLOW
    while not what() and time.monotonic() < end:
        time.sleep(0.05)
    return what()


def install(name):
    said("dpkg", "-i", str(PACKAGES / name))


def purge():
    subprocess.run(["dpkg", "--purge", "sandpiper"], capture_output=True)


def leftovers():
    """Files with the program's name, and state that systemd keeps for units and dynamic users."""
    names = said("find", "/etc", "/usr", "/var", "/run", "/tmp", "/root", "/home", "-xdev", "-name", "*sandpiper*",
                 "-not", "-path", "/run/user/*").splitlines()
    units = said("systemctl", "list-units", "--all", "--plain", "--no-legend", "sandpiper*").splitlines()
    users = sorted(os.listdir("/run/systemd/dynamic-uid")) if os.path.isdir("/run/systemd/dynamic-uid") else []
    groups = [one.gr_name for one in grp.getgrall() if "sandpiper" in one.gr_name]
    tmp = [name for name in os.listdir("/tmp") if "sandpiper" in name]
    profiles = [line for line in (LOADED.read_text() if LOADED.exists() else "").splitlines() if "sandpiper" in line]
    # Users remove their own downloads.
    names = [name for name in names if not name.endswith("/.cache/sandpiper")]
    return names + units + users + groups + tmp + profiles + sessions()


class Connection:
    """A client of the socket, like nc -U."""

    def __init__(self, uid=0, groups=()):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(120 * SLOW)
        before = os.getgroups()
        os.setgroups(groups)
        os.seteuid(uid)  # SO_PEERCRED, unix(7): the ids at connect(2)
        try:
            self.socket.connect(SOCKET)
        finally:
            os.seteuid(0)
            os.setgroups(before)
        self.file = self.socket.makefile("rw")
        self.count = 0
        self.ask("initialize", HELLO)

    def ask(self, method, params):
        self.count += 1
        self.file.write(json.dumps({"jsonrpc": "2.0", "id": self.count, "method": method, "params": params}) + "\n")
        self.file.flush()
        line = self.file.readline()
        if not line:
            raise AssertionError("closed: " + said("journalctl", "--no-pager", "-n", "30", "-o", "cat"))
        return json.loads(line)["result"]

    def python(self, code):
        result = self.ask("tools/call", {"name": "run_python", "arguments": {"code": code}})
        return result["content"][0]["text"]

    def close(self):
        self.file.close()
        self.socket.close()


def sessions():
    rows = said("systemctl", "list-units", "--plain", "--no-legend", "--all", "sandpiper-session-*.service")
    return [row.split()[0] for row in rows.splitlines()]


def properties(unit, *names):
    rows = said("systemctl", "show", unit, *(word for name in names for word in ("-p", name)))
    return dict(row.split("=", 1) for row in rows.splitlines())


class Case(unittest.TestCase):
    def setUp(self):
        purge()
        self.before = leftovers()
        self.addCleanup(purge)

    def assert_nothing_left(self):
        until(lambda: leftovers() == self.before, 20)
        self.assertEqual(leftovers(), self.before)


class Stdio(Case):
    def test_a_client_starts_the_server(self):
        install("new.deb")
        with Server() as server:
            self.assertEqual(server.python("print(6 * 7)").lines[0], "42")
        said("dpkg", "--remove", "sandpiper")
        purge()
        self.assert_nothing_left()

    def test_a_server_keeps_running_during_an_upgrade(self):
        install("old.deb")
        with Server(check=False) as server:
            server.python("kept = 'here'")
            install("new.deb")
            self.assertEqual(server.python("print(kept)").lines[0], "here")
            # The old program, whose file has been deleted, creates the next sandbox.
            self.assertEqual(server.python("print(1)", session="other").lines[0], "1")
        self.assertEqual(said("dpkg-query", "-W", "-f", "${db:Status-Status}", "sandpiper"), "installed")


class Socket(Case):
    def setUp(self):
        super().setUp()
        install("new.deb")
        said("systemctl", "enable", "--now", "sandpiper.socket")
        self.gid = grp.getgrnam("sandpiper").gr_gid

    def open(self, *args, **options):
        connection = Connection(*args, **options)
        self.addCleanup(connection.close)
        return connection

    def test_twenty_connections_have_users_and_groups_of_their_own(self):
        # Two users, because systemd 256 and newer allow 16 connections per user.
        who = [(0, ())] * 10 + [(USER, (self.gid,))] * 10
        connections = [self.open(*one) for one in who]
        for number, connection in enumerate(connections):
            answer = connection.python(f"mine = {number}")
            self.assertTrue(answer.startswith("[ok "), answer)
            self.assertNotIn("degraded", answer)
        for number, connection in enumerate(connections):
            self.assertEqual(connection.python("print(mine)").splitlines()[0], str(number))
        units = {unit: properties(unit, "MainPID", "ControlGroup", "Slice") for unit in sessions()}
        self.assertEqual(len(units), 20)
        uids = {os.stat(f"/proc/{unit['MainPID']}").st_uid for unit in units.values()}
        self.assertEqual(len(uids), 20)
        self.assertTrue(all(61184 <= uid <= 65519 for uid in uids), uids)  # systemd's dynamic users
        groups = [pathlib.Path("/sys/fs/cgroup" + unit["ControlGroup"]) for unit in units.values()]
        self.assertEqual(len(set(groups)), 20)
        for group in groups:
            boxes = list(group.glob("sandpiper-*-*/memory.max"))
            self.assertEqual([box.read_text() for box in boxes], [f"{1 << 30}\n"], group)
        slices = sorted(unit["Slice"] for unit in units.values())
        self.assertEqual(slices, ["sandpiper-0.slice"] * 10 + [f"sandpiper-{USER}.slice"] * 10)
        for connection in connections[:5]:
            connection.close()
        for connection in connections[5:10]:
            connection.socket.shutdown(socket.SHUT_WR)
            self.assertEqual(connection.file.read(), "")
        until(lambda: len(sessions()) == 10)
        self.assertEqual(len(sessions()), 10)
        self.assertEqual(connections[15].python("print(mine)").splitlines()[0], "15")
        for connection in connections[10:]:
            connection.close()
        self.assertTrue(until(lambda: not sessions()), sessions())
        self.assertTrue(until(lambda: not pathlib.Path("/sys/fs/cgroup/sandpiper.slice").exists()))
        self.assertEqual([group for group in groups if group.exists()], [])
        running = [int(uid) for uid in said("ps", "-eo", "uid=").split()]
        self.assertEqual(uids & set(running), set())

    def test_users_outside_the_group_are_refused(self):
        with self.assertRaises(PermissionError):
            Connection(USER)

    def test_a_session_is_confined(self):
        code = "import os; print(os.path.exists('/home/user'), os.path.exists('/etc/shadow'))"
        self.assertEqual(self.open().python(code).splitlines()[0], "False False")
        unit, = sessions()
        pid = properties(unit, "MainPID")["MainPID"]
        status = pathlib.Path(f"/proc/{pid}/status").read_text()
        self.assertRegex(status, r"\nCapBnd:\s+0+\n")
        self.assertRegex(status, r"\nNoNewPrivs:\s+1\n")
        self.assertEqual(os.listdir(f"/proc/{pid}/root/home"), [])
        found = properties(unit, "MemoryMax", "TasksMax")
        self.assertEqual(found, {"MemoryMax": str(2 << 30), "TasksMax": "512"})

    def test_settings_of_the_administrator(self):
        settings = pathlib.Path("/etc/sandpiper/config")
        settings.parent.mkdir()
        self.addCleanup(settings.parent.rmdir)
        self.addCleanup(settings.unlink)
        settings.write_text("memory = 256M\n")
        code = "print(open('/proc/self/cgroup').read())"
        self.open().python(code)
        unit, = sessions()
        group = pathlib.Path("/sys/fs/cgroup" + properties(unit, "ControlGroup")["ControlGroup"])
        self.assertEqual([path.read_text() for path in group.glob("sandpiper-*-*/memory.max")], [f"{256 << 20}\n"])

    def test_a_killed_server_leaves_nothing(self):
        connection = self.open()
        connection.python("import subprocess; subprocess.Popen(['sleep', '1000'])")
        unit, = sessions()
        os.kill(int(properties(unit, "MainPID")["MainPID"]), signal.SIGKILL)
        self.assertEqual(connection.file.read(), "")
        self.assertTrue(until(lambda: not sessions()), sessions())
        self.assertTrue(until(lambda: not said("systemctl", "list-units", "--all", "--plain", "--no-legend",
                                               "sandpiper@*")))

    def test_stopping_the_connection_stops_its_server(self):
        connection = self.open()
        connection.python("1")
        unit, = said("systemctl", "list-units", "--plain", "--no-legend", "sandpiper@*").split(maxsplit=1)[:1]
        said("systemctl", "stop", unit)
        self.assertEqual(connection.file.read(), "")
        self.assertTrue(until(lambda: not sessions()), sessions())

    def test_an_upgrade_does_not_affect_sessions(self):
        purge()
        install("old.deb")
        said("systemctl", "start", "sandpiper.socket")
        connection = self.open()
        connection.python("kept = 'here'")
        install("new.deb")
        self.assertEqual(connection.python("print(kept)").splitlines()[0], "here")
        self.assertEqual(self.open().python("print(2)").splitlines()[0], "2")

    def test_removal_stops_sessions_and_leaves_nothing(self):
        connection = self.open()
        connection.python("1")
        said("dpkg", "--remove", "sandpiper")
        self.assertEqual(connection.file.read(), "")
        self.assertEqual(sessions(), [])
        said("dpkg", "--purge", "sandpiper")
        self.assert_nothing_left()


class Profile(Case):
    """On a kernel with AppArmor."""

    def setUp(self):
        super().setUp()
        if not LOADED.exists():
            raise unittest.SkipTest("apparmor: not in this kernel")
        said("systemctl", "unmask", "apparmor.service")
        self.understood = subprocess.run(["apparmor_parser", "-Q", "-K", "/dev/stdin"], capture_output=True, text=True,
                                         input="abi <abi/4.0>,\nprofile x /x flags=(unconfined) { userns, }\n"
                                         ).returncode == 0

    def restart(self):
        """Restarts apparmor.service, which reads all of /etc/apparmor.d, as at boot."""
        said("systemctl", "restart", "apparmor.service")
        self.assertEqual(said("systemctl", "is-active", "apparmor.service"), "active\n")

    def test_the_profile_is_installed_where_the_parser_supports_it(self):
        self.restart()
        install("new.deb")
        self.assertEqual(LINK.is_symlink(), self.understood)
        self.assertEqual("sandpiper (enforce)" in LOADED.read_text(), self.understood)
        self.restart()
        self.assertEqual("sandpiper (enforce)" in LOADED.read_text(), self.understood)
        install("new.deb")
        purge()
        self.assert_nothing_left()
        self.restart()

    def test_a_file_of_the_administrator_stays(self):
        LINK.write_text("# mine\n")
        self.addCleanup(lambda: LINK.unlink(missing_ok=True))
        install("new.deb")
        purge()
        self.assertEqual(LINK.read_text(), "# mine\n")

    def test_the_profile_attaches(self):
        install("new.deb")
        with Server() as server:
            server.python("1")
            label = pathlib.Path(f"/proc/{server.process.pid}/attr/current").read_text()
        self.assertEqual(label.startswith("sandpiper (enforce)"), self.understood, label)


class Ubuntu(Case):
    """Under a rule like Ubuntu's: user namespaces without capabilities."""

    def setUp(self):
        super().setUp()
        self.at_home = pathlib.Path(pwd.getpwuid(USER).pw_dir, ".local", "bin", "sandpiper")
        if not LOADED.exists() or "hostvm-ubuntu" not in LOADED.read_text():
            raise unittest.SkipTest("apparmor: no rule like Ubuntu's is loaded")

    def as_user(self, *command):
        # Through a shell, because a program that aa-exec itself executes gets the rule's profile, not that of its path.
        return subprocess.run(["setpriv", f"--reuid={USER}", f"--regid={USER}", "--init-groups", "--reset-env",
                               "aa-exec", "-p", "hostvm-ubuntu", "--", "sh", "-c", '"$@"', "sh", *map(str, command)],
                              capture_output=True, text=True)

    def assert_refused(self, program):
        done = self.as_user(program, "run", "-c", "print(6 * 7)")
        self.assertEqual(done.returncode, 125, done.stdout + done.stderr)
        self.assertIn("AppArmor", done.stderr)

    def assert_runs(self, program):
        done = self.as_user(program, "run", "-c", "print(6 * 7)")
        self.assertEqual((done.returncode, done.stdout), (0, "42\n"), done.stderr)

    def copy_to(self, path):
        said("dpkg-deb", "--extract", str(PACKAGES / "new.deb"), "/tmp/unpacked")
        path.parent.mkdir(parents=True, exist_ok=True)
        said("install", "-m", "755", "/tmp/unpacked/usr/bin/sandpiper", str(path))
        said("rm", "-r", "/tmp/unpacked")
        self.addCleanup(lambda: path.unlink(missing_ok=True))

    def each_rule(self):
        """With the sysctl that Ubuntu 26.04 adds, and without it."""
        before = RESTRICTED.read_text()
        self.addCleanup(RESTRICTED.write_text, before)
        for value in "01":
            RESTRICTED.write_text(value)
            self.assertEqual(RESTRICTED.read_text().strip(), value)
            yield value

    def test_it_works_only_with_the_package(self):
        program = pathlib.Path("/usr/bin/sandpiper")
        for _ in self.each_rule():
            self.copy_to(program)
            self.assert_refused(program)
            program.unlink()
            install("new.deb")
            self.assert_runs(program)
            said("ln", "-sf", str(program), "/tmp/link")
            self.assert_runs("/tmp/link")
            purge()

    def test_it_works_after_make_install(self):
        """What `make install` runs. This kernel has not the sysctl by which it knows Ubuntu, so that is a file."""
        program, place = pathlib.Path("/usr/local/bin/sandpiper"), pathlib.Path("/tmp/ubuntu")
        rule = place / "proc/sys/kernel/apparmor_restrict_unprivileged_userns"
        rule.parent.mkdir(parents=True)
        rule.write_text("1\n")
        (place / "etc").symlink_to("/etc")
        script = str(PACKAGES / "build-aux" / "allow_namespaces.sh")
        for _ in self.each_rule():
            self.copy_to(program)
            self.assert_refused(program)
            self.assertIn("is loaded", said("sh", script, str(program), str(place)))
            self.assert_runs(program)
            program.unlink()
            said("sh", script, "remove", str(place))
            self.assertFalse(LINK.exists())

    def test_without_the_package_doctors_commands_make_it_work(self):
        install("new.deb")
        self.copy_to(self.at_home)
        self.assert_refused(self.at_home)
        doctor = self.as_user(self.at_home, "doctor").stdout
        lines = doctor[doctor.index("sudo tee"):]
        profile = pathlib.Path(re.search(r"/etc/apparmor\.d/\S+", lines)[0])
        self.addCleanup(lambda: profile.unlink(missing_ok=True))
        said("sh", "-ec", lines.replace("sudo ", ""))
        self.assert_runs(self.at_home)
        said("apparmor_parser", "--remove", str(profile))
        self.assert_refused(self.at_home)
