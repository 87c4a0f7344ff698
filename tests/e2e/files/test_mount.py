"""--mount: directories of the host below /data, read-only or writable."""
import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

from client import Case, Server, need_userns, run_cli
from container_level import CONTAINER


def is_writable_here():
    """True if a directory can be writable: one of root's needs an id mapping."""
    mapped = pathlib.Path("/proc/self/uid_map").read_text().split()[2] != "1"
    return not (os.geteuid() == 0 and mapped and CONTAINER)


class Directories(Case):
    """A read-only directory, a writable one, and the test's own home directory."""

    @classmethod
    def setUpClass(cls):
        need_userns()
        cls.temp = pathlib.Path(tempfile.mkdtemp(prefix="sp-mount-"))
        cls.temp.chmod(0o755)
        cls.home = cls.temp / "home"
        for name in ("in/2023", "out", "home/.ssh", "home/Documents"):
            (cls.temp / name).mkdir(parents=True)
        (cls.temp / "in/sales.csv").write_text("a,b\n1,2\n")
        (cls.temp / "in/passwd").symlink_to("/etc/passwd")
        (cls.temp / "in/up").symlink_to("../../../../../../home")
        (cls.temp / "home/Documents/letter.txt").write_text("dear\n")
        (cls.temp / "home/.ssh/key").write_text("secret\n")
        cls.env = {"PATH": os.environ["PATH"], "HOME": str(cls.home)}

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.temp, ignore_errors=True)

    def at(self, name, rest=""):
        return f"{self.temp}/{name}{rest}"

    @staticmethod
    def mounted(server, **directories):
        """The paths of directories below /data, for server.here(): without mounts they are the host's."""
        if CONTAINER:
            server.directories.update({f"/data/{name}": os.path.realpath(directory) for name, directory in directories.items()})


class Shown(Directories):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        args = ["--mount", f"{cls.temp}/in"]
        if is_writable_here():
            args += ["--mount", f"{cls.temp}/out:results:rw"]
        cls.server = Server(*args, initialize=False)
        cls.instructions = cls.server.initialize()["instructions"]
        cls.mounted(cls.server, **{"in": f"{cls.temp}/in", "results": f"{cls.temp}/out"})

    @classmethod
    def tearDownClass(cls):
        with cls.server:
            super().tearDownClass()

    def need_writable(self):
        if not is_writable_here():
            self.skipTest("isolation: nothing of root's is handed over without mapped ids")

    def test_code_and_tools_read_it(self):
        python, here = self.server.python, self.server.here
        self.assert_prints(python(here("print(open('/data/in/sales.csv').read().split())")), "['a,b', '1,2']")
        self.assert_prints(python(here("import os; print(sorted(os.listdir('/data/in')))"), session="other"),
                           "['2023', 'passwd', 'sales.csv', 'up']")
        self.assert_prints(python(here("import os; print(os.path.isdir('/data/in/2023'))"), fresh=True), "True")
        self.assertEqual(self.server.read(here("/data/in/sales.csv")).text, "a,b\n1,2\n")

    def test_mounts_are_named_in_descriptions_and_instructions(self):
        tools = {tool["name"]: tool["description"] for tool in self.server.request("tools/list")["result"]["tools"]}
        for name in ("run_python", "read_file", "write_file"):
            if CONTAINER and "The user's directories are there; the instructions list them." in tools[name]:
                continue  # their paths may be too long for a description
            self.assertIn(self.server.here("read-only: /data/in"), tools[name])
            if is_writable_here() and name == "run_python":
                self.assertIn(self.server.here("writable: /data/results"), tools[name])
        source = "" if CONTAINER else " " + os.path.realpath(self.at("in"))
        self.assertIn(self.server.here("/data/in") + f" is the user's directory{source}, read-only.", self.instructions)

    def test_what_is_only_read_cannot_be_written(self):
        self.assert_prints(self.server.python(self.server.here(
            "import errno\nfor mode in 'w', 'a', 'x', 'r+':\n"
            "    try: open('/data/in/sales.csv' if mode != 'x' else '/data/in/new', mode)\n"
            "    except OSError as error: print(error.errno in (errno.EROFS, errno.EACCES))")), "\n".join(["True"] * 4))
        new = self.server.here("/data/in/new")
        self.assertIn(f"{new} is read-only in the sandbox", self.server.write(new, "x").text)
        self.assertEqual(pathlib.Path(self.at("in/sales.csv")).read_text(), "a,b\n1,2\n")

    def test_what_is_written_belongs_to_the_directories_owner(self):
        self.need_writable()
        self.assert_ok(self.server.python(self.server.here(
            "import os\nos.mkdir('/data/results/deep'); open('/data/results/deep/a', 'w').write('by code')\n"
            "os.rename('/data/results/deep/a', '/data/results/b')")))
        self.assertFalse(self.server.write(self.server.here("/data/results/c.txt"), "by the tool").is_error)
        for name, text in ("b", "by code"), ("c.txt", "by the tool"):
            path = pathlib.Path(self.at("out"), name)
            self.assertEqual((path.read_text(), path.stat().st_uid), (text, os.stat(self.at("out")).st_uid))
        pathlib.Path(self.at("out/later")).write_text("by the host")
        self.assertEqual(self.server.read(self.server.here("/data/results/later")).text, "by the host")

    def test_links_do_not_leave_the_mount(self):
        self.assertNotIn("daemon", self.server.read(self.server.here("/data/in/passwd")).text)
        self.assertTrue(self.server.read(self.server.here("/data/in/up")).is_error)

    def test_its_path_on_the_host_is_understood(self):
        host = os.path.realpath(self.at("in"))
        self.assertEqual(self.server.read(f"{host}/sales.csv").text, "a,b\n1,2\n")
        self.assertIn(self.server.here("/data/in/new") + " is ", self.server.write(f"{host}/new", "x").text)
        if not CONTAINER:
            result = self.server.python(f"open('{host}/2023/x.csv')")
            self.assertIn(f"Hint: the user's directory {host} is /data/in here", result.text)

    def test_near_names(self):
        for path, near in (("/data/in/sale.csv", "/data/in/sales.csv"), ("/data/inn", "/data/in"),
                           ("in/x.csv", "/data/in/x.csv"), ("/work/in/x.csv", "/data/in/x.csv")):
            self.assertIn(f"Did you mean {near}?", self.server.read(path).text)
        for path, hint in (("/data/in/sale.csv", "did you mean '/data/in/sales.csv'?"),
                           ("/data/nothing/x", "/data contains: in"),
                           ("/srv/none/x", "the user's directories are below /data: in")):
            self.assertIn(f"Hint: {hint}", self.server.python(f"open({path!r})").text)

    def test_a_file_in_it_is_found_by_its_name(self):
        for path, near in (("sales.csv", "/data/in/sales.csv"), ("/work/sales.csv", "/data/in/sales.csv"), ("2023", "/data/in/2023")):
            if not CONTAINER or path[0] != "/":
                self.assertIn(f"{path} not found. Did you mean {self.server.here(near)}?", self.server.read(path).text)
        self.assertNotIn("/data/in/", self.server.read("nowhere.csv").text)

    def test_no_program_in_it_is_executed(self):
        program = pathlib.Path(self.at("in/2023/program"))
        program.write_text("#!/bin/sh\necho ran\n")
        program.chmod(0o755)
        result = self.server.python(self.server.here("import subprocess; subprocess.run(['/data/in/2023/program'])"))
        self.assert_kind(result, "error")
        self.assertIn("Hint: programs below /data cannot run", result.text)


class Changing(Directories):
    """The sandbox starts after the first response, so a change before it looks like one after the start."""

    def changed(self, change, *args):
        directory = pathlib.Path(self.at("changing"))
        directory.mkdir()
        self.addCleanup(shutil.rmtree, directory, ignore_errors=True)
        server = Server("--mount", str(directory), "--mount", self.at("in"), *args, initialize=False)
        with server:
            server.request("ping")
            change(directory)
            server.initialize()
            result = server.python("import os; print(os.listdir('/data'))")
            self.assert_alive(server)
        return result

    def test_a_directory_that_is_gone_is_missing_for_code(self):
        self.assert_prints(self.changed(os.rmdir), "['in']")

    def test_a_link_in_its_place_is_not_followed(self):
        def replace(directory):
            directory.rmdir()
            directory.symlink_to(self.home)
            self.addCleanup(directory.unlink)
        self.assert_prints(self.changed(replace), "['in']")

    def test_a_file_in_its_place_is_not_shown(self):
        def replace(directory):
            directory.rmdir()
            directory.write_text("x")
            self.addCleanup(directory.unlink)
        self.assert_prints(self.changed(replace), "['in']")

    def test_a_mount_that_vanishes_is_an_error_of_the_call(self):
        directory = pathlib.Path(self.at("vanishing"))
        directory.mkdir()
        (directory / "a").write_text("x")
        with Server("--mount", str(directory)) as server:
            self.mounted(server, vanishing=directory)
            self.assert_prints(server.python(server.here("print(open('/data/vanishing/a').read())")), "x")
            shutil.rmtree(directory)
            self.assert_kind(server.python(server.here("open('/data/vanishing/a')")), "error")
            self.assertTrue(server.read(server.here("/data/vanishing/a")).is_error)
            self.assert_alive(server)


class Mounted(Directories):
    """Directories on the test's own file systems."""

    def wrapped(self, script):
        wrap = ["unshare", "-Urm", "sh", "-ec", script + '; exec "$@"', "sh"]
        tried = subprocess.run([*wrap, "true"], capture_output=True)
        if tried.returncode:
            self.skipTest("mount: " + tried.stderr.decode(errors="replace").strip())
        return wrap

    def test_a_directory_that_fills_up_is_an_error_of_the_call(self):
        wrap = self.wrapped(f"mount -t tmpfs -o size=64k tmpfs {self.at('out')}")
        with Server("--mount", self.at("out", ":rw"), wrap=wrap) as server:
            self.mounted(server, out=self.at("out"))
            result = server.python(server.here("open('/data/out/a', 'wb').write(bytes(1 << 20))"))
            self.assert_kind(result, "error")
            self.assertIn("No space left", result.text)
            self.assertIn(f"the disk of the user's directory {'of --mount' if CONTAINER else '/data'} is full", result.text)
            self.assertIn("does not fit", server.write(server.here("/data/out/b"), "x" * (1 << 20)).text)
            self.assert_alive(server)

    def test_file_systems_of_the_kernel_below_it_are_refused(self):
        wrap = self.wrapped(f"mount --rbind /proc {self.at('in/2023')}")
        with Server("--mount", self.at("in"), wrap=wrap) as server:
            result = server.python("print('code ' + 'ran')")
            self.assertTrue(result.is_error)
            self.assertIn("it contains a kernel file system: proc", result.text)


class Unmounted(Directories):
    """The level without mounts: directories have the host's paths."""

    def test_without_mounts_the_host_path_is_granted_and_reported(self):
        flags = ("--isolation", "container")
        if run_cli("doctor", *flags).returncode == 2:
            self.skipTest("isolation: level container unavailable here")
        shown, out = os.path.realpath(self.at("in")), os.path.realpath(self.at("out"))
        with Server(*flags, "--mount", shown, "--mount", f"{out}:results:rw", initialize=False) as server:
            self.assertIn(f"Data: {shown} is the user's directory, read-only.", server.initialize()["instructions"])
            self.assert_prints(server.python(f"print(open('{shown}/sales.csv').read().split())"), "['a,b', '1,2']")
            self.assertIn("a,b", server.read(f"{shown}/sales.csv").text)
            self.assertIn(f"Did you mean {shown}/a?", server.read("in/a").text)
            for path in (f"{shown}/sales.csv", f"{shown}/new", self.at("new"), self.at("home/.ssh/key")):
                self.assertTrue(server.python(f"open({path!r}, 'a')").is_error, path)
            self.assertTrue(server.python(f"open({self.at('home/.ssh/key')!r})").is_error)
            if os.stat(out).st_uid == os.geteuid() and os.geteuid() != 0:
                self.assert_ok(server.python(f"open('{out}/by-code', 'w').write('x')"))


class Chosen(Directories):
    """Flags, the home directory, and doctor's output."""

    def run_code(self, code, *flags):
        return run_cli("run", *flags, "-c", code, env=self.env)

    def test_directories_with_more_than_data_are_refused(self):
        for flags, words in ((["--mount", "/"], "the whole file system"), (["--mount", "/proc"], "kernel file system"),
                             (["--mount", "~"], "--mount-home"), (["--mount", self.at("")], "contains the home directory"),
                             (["--mount", self.at("none")], "No such file"),
                             (["--mount", self.at("in"), "--workspace", self.at("in/2023")], "the workspace"),
                             (["--mount", self.at("in"), "--mount", self.at("out", ":in")], "DIR:NAME"),
                             (["--mount", self.at("in", ":a"), "--mount", self.at("in/2023", ":rw")], "overlaps"),
                             (["--mount", self.at("home/.config", ":rw")], "configuration file")):
            with self.subTest(flags=flags):
                pathlib.Path(self.at("home/.config")).mkdir(exist_ok=True)
                done = self.run_code("print('code ' + 'ran')", *flags)
                self.assertEqual((done.returncode, done.stdout), (2, b""))
                self.assertIn(words, done.stderr.decode())

    def test_a_server_says_what_is_wrong(self):
        with Server("--mount", "/") as server:
            self.assertIn("--mount /: it is the whole file system", server.python("1").text)

    def test_the_home_directory_is_shown_without_hidden_ones(self):
        done = self.run_code("import os; print(sorted(os.walk('/data')))", "--mount", "~:me", "--mount-home")
        self.assertEqual(done.stdout.decode().strip(), str(
            [("/data", ["me"], []), ("/data/me", ["Documents"], []),
             ("/data/me/Documents", [], ["letter.txt"])]), done.stderr)

    def test_doctor_lists_each_mount_with_its_source(self):
        config = pathlib.Path(self.at("config"))
        config.write_text(f"mount = {self.at('in')}\nmount = {self.at('in/2023')}:old\n")
        flags = ("--config", str(config), "--mount", self.at("home/Documents", ":docs:rw"))
        done = run_cli("doctor", "--effective", *flags, env=self.env)
        rows = [line.split() for line in done.stdout.decode().splitlines()]
        at = [row[0] for row in rows].index("mount")
        self.assertEqual(rows[at:at + 3], [
            ["mount", self.at("in"), f"{config}:1"], [self.at("in/2023:old"), f"{config}:2"],
            [self.at("home/Documents:docs:rw"), "command", "line"]])
        if is_writable_here():
            done = run_cli("doctor", "--json", *flags, env=self.env)
            facts = [row["text"] for row in json.loads(done.stdout)["facts"] if row["fact"] == "data"]
            self.assertEqual(len(facts), 3, facts)
            for fact, words in zip(facts, ("/data/in is", "/data/old is", "writable: code can fill")):
                self.assertIn(words, fact)


if __name__ == "__main__":
    unittest.main()
