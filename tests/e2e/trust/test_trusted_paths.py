"""The server reads as settings nothing that code can write, and gives code no directory from which the host runs."""
import os
import pathlib
import stat
import subprocess
import unittest

from client import COMMAND, SLOW, Server, run_cli
from container_level import CONTAINER
from planting import PLANT, Planting


class Settings(Planting):
    """Files that are read at the next start."""

    def plant_settings(self, path, flags=(), env=None):
        secret = pathlib.Path(self.at("home/Documents"))
        secret.mkdir()
        (secret / "letter").write_text("dear diary")
        granted, inside = self.granted("work")
        env = {**self.env, **(env or {})}
        code = PLANT + f"plant({inside + '/' + path!r}, 'mount = {secret}\\n', 0o644)\n"
        with Server(*granted, *flags, env=env) as server:
            first = server.python(code)
        with Server(*granted, *flags, env=env) as server:
            letter = f"{secret}/letter" if CONTAINER else "/data/Documents/letter"
            self.assertNotIn("dear diary", server.python(f"print(open({letter!r}).read())").text)
        self.assertTrue(first.is_error)
        self.assertIn("the configuration file", first.text)
        self.assertIn("where code can change it", first.text)
        done = run_cli("run", *granted, *flags, "-c", "print('ran')", env=env)
        self.assertEqual((done.returncode, done.stdout), (2, b""))

    def test_a_configuration_file_in_the_workspace(self):
        pathlib.Path(self.at("work/settings")).write_text("timeout = 5\n")
        self.plant_settings("settings", ("--config", self.at("work/settings")))

    def test_a_default_path_in_the_workspace_without_a_file(self):
        self.plant_settings("sandpiper/config", env={"XDG_CONFIG_HOME": self.at("work")})

    def test_a_symlink_into_the_workspace(self):
        os.symlink(self.at("work"), self.at("home/.config"))
        self.plant_settings("sandpiper/config")

    def test_a_part_of_the_workspace_under_another_name(self):
        for name in ("work/conf", "home/.config"):
            os.makedirs(self.at(name))
        for source, target in (("work/conf", "home/.config"), ("home/.config", "work/conf")):
            with self.subTest(source):
                script = f'mount --bind {self.at(source)} {self.at(target)}; exec "$@"'
                wrap = ["unshare", "-Urm", "sh", "-ec", script, "sh"]
                tried = subprocess.run([*wrap, "true"], capture_output=True)
                if tried.returncode:
                    self.skipTest("mount: " + tried.stderr.decode(errors="replace").strip())
                done = subprocess.run([*wrap, *COMMAND, "run", "--workspace", self.at("work"), "-c", "print('ran')"],
                                      env=self.env, capture_output=True, timeout=60 * SLOW)
                self.assertEqual((done.returncode, done.stdout), (2, b""), done.stderr)
                self.assertIn(b"the configuration file", done.stderr)

    def test_a_part_of_what_is_mounted_in_the_workspace_under_another_name(self):
        for name in ("work/mnt", "home/.config"):
            os.makedirs(self.at(name))
        script = ('mount -t tmpfs none "$1/work/mnt"; mkdir "$1/work/mnt/t"; mount --bind "$1/work/mnt/$2" "$1/home/.config"; '
                  'shift 2; exec "$@"')
        for part, status in (("t", 2), ("../../out", 0)):  # the control: of something else
            with self.subTest(part):
                wrap = ["unshare", "-Urm", "sh", "-ec", script, "sh", self.temp, part]
                tried = subprocess.run([*wrap, "true"], capture_output=True)
                if tried.returncode:
                    self.skipTest("mount: " + tried.stderr.decode(errors="replace").strip())
                done = subprocess.run([*wrap, *COMMAND, "run", "--workspace", self.at("work"), "-c", "print('ran')"],
                                      env=self.env, capture_output=True, timeout=60 * SLOW)
                self.assertEqual(done.returncode, status, done.stderr)
                if status:
                    self.assertIn(b"the configuration file", done.stderr)

    def test_settings_elsewhere(self):
        """The control."""
        settings = pathlib.Path(self.at("home/settings"))
        settings.write_text("timeout = 5\n")
        done = run_cli("run", "--workspace", self.at("work"), "--config", str(settings), "-c", "print('ran')", env=self.env)
        self.assertEqual((done.returncode, done.stdout), (0, b"ran\n"), done.stderr)

    def test_files_for_the_installer_are_refused_in_the_workspace(self):
        for name in ("work", "home"):
            pathlib.Path(self.at(f"{name}/file")).write_text("")
            os.mkdir(self.at(f"{name}/wheels"))
        for flag, path in (("--constraint", "file"), ("--index-cert", "file"), ("--find-links", "wheels")):
            for name, status in (("work", 2), ("home", 0)):
                with self.subTest(flag, name=name):
                    done = run_cli("run", "--workspace", self.at("work"), flag, self.at(f"{name}/{path}"), "-c", "pass",
                                   env=self.env)
                    self.assertEqual(done.returncode, status, done.stderr)
                    if status:
                        self.assertIn(b"where code can change it", done.stderr)

    def test_the_cache(self):
        with Server("--workspace", self.at("work"), env={**self.env, "XDG_CACHE_HOME": self.at("work")}) as server:
            result = server.call("install_package", packages=["nothing-of-this-name"])
            self.assertIn("the cache directory", result.text)
            self.assertIn("where code can change it", result.text)
        self.assertEqual(os.listdir(self.at("work")), [])

    def test_scratch_files_are_not_in_the_workspace(self):
        env = {**self.env, "TMPDIR": self.at("work")}
        done = run_cli("run", "--isolation", "container", "--workspace", self.at("work"), "-c",
                       "import os; print(os.environ['TMPDIR'])", env=env)
        if b"landlock" in done.stderr.lower():
            self.skipTest("landlock: this level is not to be had here")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertNotIn(self.at("work"), done.stdout.decode())

    def test_a_clients_configuration_in_the_workspace(self):
        flags = ("--", "--workspace", self.at("work"))
        for name, status in (("work", 1), ("home", 0)):
            path = self.at(f"{name}/mcp.json")
            done = run_cli("config", "--host", "cursor", "--file", path, "--install", *flags, env=self.env)
            self.assertEqual(done.returncode, status, done.stderr)
            self.assertEqual(os.path.exists(path), status == 0)
        self.assertIn("mcp.json", os.listdir(self.at("home")))


class Workspaces(Planting):
    """--workspace is checked like --mount."""

    def refused(self, workspace, *words, env=None, wrap=()):
        env = {**self.env, **(env or {})}
        command = [*wrap, *COMMAND, "run", "--workspace", workspace, "-c", "print('code ' + 'ran')"]
        done = subprocess.run(command, env={name: value for name, value in env.items() if value is not None},
                              capture_output=True, text=True, timeout=60 * SLOW)
        self.assertEqual((done.returncode, done.stdout), (2, ""), (workspace, done.stderr))
        self.assertIn("--workspace", done.stderr)
        for word in words:
            self.assertIn(word, done.stderr)
        for word in ("chown", "isolation", "sudo"):
            self.assertNotIn(word, done.stderr)

    def test_the_home_directory(self):
        granted = ("--workspace", self.at("home"))
        code = PLANT + "plant('.ssh/authorized_keys', 'a key', 0o600)"
        with Server(*granted, env=self.env) as server:
            self.assertIn("the home directory", server.python("import os\n" + code.replace("'.ssh", "os.getcwd() + '/.ssh")).text)
        self.assertFalse(os.path.exists(self.at("home/.ssh")))
        os.symlink(self.at("home"), self.at("alias"))
        for path in (self.at("home"), self.at("home/"), self.at("alias"), self.at("work/../home/."), "~"):
            self.refused(path, "the home directory")
        self.refused(self.temp, "contains the home directory")
        os.mkdir(self.at("home/project"))
        for path in (self.at("home/project"), "~/project"):  # the control
            done = run_cli("run", "--workspace", path, "-c", "print('ran')", env=self.env)
            if os.geteuid() != 0 or not CONTAINER:
                self.assertEqual(done.stdout, b"ran\n", done.stderr)

    def test_a_home_that_the_environment_does_not_name(self):
        import pwd
        try:
            home = pwd.getpwuid(os.geteuid()).pw_dir
        except KeyError:
            self.skipTest("passwd: this user is not in it")
        if not os.path.isdir(home) or os.path.realpath(home) == "/":
            self.skipTest("passwd: this user has no home")
        for value in (None, "", "/nonexistent", self.at("home"), "/"):
            with self.subTest(value):
                self.refused(home, "the home directory", env={"HOME": value})

    def test_the_root_and_the_systems_directories(self):
        os.symlink("/", self.at("root"))
        os.symlink("/usr", self.at("usr"))
        for path in ("/", "//", "/.", "/usr/..", self.at("root"), self.at("root/.")):
            self.refused(path, "the whole file system")
        for path in ("/usr", "/etc", "/var", "/boot", "/bin", "/lib", "/etc/ssl", "/usr/lib", "/usr/bin", "/dev", "/opt",
                     self.at("usr"), self.at("root/etc")):
            if os.path.isdir(path):
                self.refused(path, "the system runs from it")
        for path in ("/proc", "/sys"):
            self.refused(path)

    def test_the_same_under_another_name(self):
        os.mkdir(self.at("bound"))
        for source, word in ((self.at("home"), "home directory"), ("/etc", "the system")):
            wrap = ["unshare", "-Urm", "sh", "-ec", f"mount --rbind {source} {self.at('bound')}; exec \"$@\"", "sh"]
            tried = subprocess.run([*wrap, "true"], capture_output=True)
            if tried.returncode:
                self.skipTest("mount: " + tried.stderr.decode(errors="replace").strip())
            self.refused(self.at("bound"), word, wrap=wrap)

    def test_a_writable_mount_is_checked_like_the_workspace(self):
        for path, word in (("/usr", "the system"), ("/etc/ssl", "the system"), ("~", "home directory"),
                           (self.temp, "home directory")):
            done = run_cli("run", "--mount", path + ":rw", "-c", "print('ran')", env=self.env)
            self.assertEqual((done.returncode, done.stdout), (2, b""))
            self.assertIn(word, done.stderr.decode())

    def test_a_mistyped_path_is_a_wrong_command_line(self):
        pathlib.Path(self.at("file")).write_text("")
        self.refused(self.at("none"), "No such file", self.at("none"))
        self.refused(self.at("file"), "Not a directory", self.at("file"))
        self.refused(self.at("file/below"), "Not a directory")
        with Server("--workspace", self.at("none"), env=self.env) as server:
            result = server.python("print('code ' + 'ran')")
            self.assertTrue(result.is_error)
            self.assertIn("No such file", result.text)
            self.assertNotIn("isolation", result.text)

    def test_a_vanished_workspace_does_not_weaken_the_level(self):
        os.mkdir(self.at("short"))
        server = Server("--workspace", self.at("short"), env=self.env, initialize=False)
        with server:
            server.request("ping")
            os.rmdir(self.at("short"))
            server.initialize()
            result = server.python("print('code ' + 'ran')")
            self.assertTrue(result.is_error, result.text)
            self.assertNotIn("isolation", result.text)

    def test_no_advice_names_a_directory_of_the_system(self):
        cache = self.at("cache")
        os.mkdir(cache)
        os.chmod(cache, stat.S_IRWXU | stat.S_IRWXG | stat.S_IRWXO)
        with Server("--cache", cache, env=self.env) as server:
            text = server.call("install_package", packages=["nothing-of-this-name"]).text
        self.assertIn("is writable by others", text)
        for word in ("chmod", "chown", "sudo"):
            self.assertNotIn(word, text)


if __name__ == "__main__":
    unittest.main()
