"""The server executes, reads as settings and trusts nothing on the host that code can write.

Each test plants a file from a session, and then checks for a file that only a program on the host could have written:
after a reset, a crash, a fresh run, an installation, and the next start. docs/THREATS.md has the table."""
import json
import os
import pathlib
import re
import shutil
import stat
import subprocess
import tempfile
import unittest

from client import BINARY, COMMAND, SLOW, Case, Server, give_away, need_userns, run_cli
from container_level import CONTAINER

PYTHON = "/usr/bin/python3"

# Like asdf's: the nearest .tool-versions, from the current directory up, sets the version, otherwise the user's file.
SHIM = """#!/bin/sh
echo "$PWD" >>{asked}
at=$PWD
while [ ! -f "$at/.tool-versions" ] && [ "$at" ]; do at=${{at%/*}}; done
[ "$at" ] || at=$HOME
version=$(sed -n 's/^python //p' "$at/.tool-versions" 2>/dev/null)
case $version in path:*) exec "${{version#path:}}/bin/python3" "$@" ;; esac
exec {python} "$@"
"""

# In the sandbox: creates a file of this mode and the directories above it.
PLANT = """
import os
def plant(path, text, mode=0o755):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    os.path.lexists(path) and os.unlink(path)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT, mode), "w") as file:
        file.write(text)
"""


class Planting(Case):
    """A workspace, a writable mount, and a home directory, none of them in another."""

    def setUp(self):
        need_userns()
        if not os.access(PYTHON, os.X_OK):
            self.skipTest(f"python: no {PYTHON}")
        self.temp = tempfile.mkdtemp(prefix="sp-trust-")
        self.addCleanup(shutil.rmtree, self.temp, ignore_errors=True)
        os.chmod(self.temp, 0o755)
        for name in ("work", "out", "home", "shims"):
            os.mkdir(f"{self.temp}/{name}")
        self.marker = f"{self.temp}/ran-on-the-host"
        self.asked = f"{self.temp}/asked"
        self.evil = f"#!/bin/sh\n: >>{self.marker}\nexec {PYTHON} \"$@\"\n"
        self.env = {"PATH": "/usr/bin:/bin", "HOME": self.at("home")}
        for name in ("work", "out"):
            give_away(self.at(name))

    def at(self, name):
        return f"{self.temp}/{name}"

    def program(self, name, text):
        path = pathlib.Path(self.at(name))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)
        return str(path)

    def granted(self, name):
        """The flags that make the directory writable for code, and its path there."""
        if name == "work":
            return ["--workspace", self.at(name)], self.at(name) if CONTAINER else "/work"
        return ["--mount", self.at(name) + ":rw"], self.at(name) if CONTAINER else "/data/" + name

    def need_mount(self, name):
        mapped = pathlib.Path("/proc/self/uid_map").read_text().split()[2] != "1"
        if name == "out" and os.geteuid() == 0 and mapped and CONTAINER:
            self.skipTest("isolation: nothing of root's is handed over without mapped ids")

    def attack(self, name, planted, env=None, cwd=None, flags=(), wrap=()):
        """Plants {path below name: text} from inside, and then starts the sandbox again in every way."""
        granted, inside = self.granted(name)
        options = dict(env={**self.env, **(env or {})}, cwd=cwd, wrap=wrap)
        code = PLANT + "".join(f"plant({inside + '/' + path!r}, {text!r})\n" for path, text in planted.items())
        with Server(*granted, "--no-index", *flags, **options) as server:
            self.assert_ok(server.python(code))
            for path in planted:
                self.assertTrue(os.path.lexists(self.at(f"{name}/{path}")), "the control: it was planted")
            self.assert_ok(server.python("kept = 1"))
            self.assert_ok(server.python("print(1)", reset=True))
            server.python("import os; os.kill(os.getpid(), 11)")
            self.assert_ok(server.python("print(2)", fresh=True))
            server.call("install_package", packages=["nothing-of-this-name"])
            self.assert_alive(server)
            self.assert_not_run("in the same server")
        with Server(*granted, "--no-index", *flags, **options) as server:
            result = server.python("print('next')")
            self.assert_not_run("by the next one")
        return result

    def assert_not_run(self, when):
        self.assertFalse(os.path.lexists(self.marker), f"what code planted was executed on the host, {when}")


class Shims(Planting):
    """An interpreter that is a script whose output depends on files."""

    def setUp(self):
        super().setUp()
        self.program("shims/python3", SHIM.format(asked=self.asked, python=PYTHON))
        self.env["PATH"] = f"{self.at('shims')}:/usr/bin:/bin"

    def attack_shim(self, name):
        self.need_mount(name)
        planted = {".tool-versions": f"python path:{self.at(name)}/evil\n", "evil/bin/python3": self.evil}
        result = self.attack(name, planted, cwd=self.at(name))
        self.assert_prints(result, "next")
        asked = pathlib.Path(self.asked).read_text().splitlines()
        self.assertEqual(asked, ["/", "/"], "once in each of two servers, from /")
        # The control: run in that directory, it executes the planted file.
        subprocess.run([self.at("shims/python3"), "-c", ""], cwd=self.at(name), env=self.env, check=True)
        self.assertTrue(os.path.exists(self.marker))

    def test_the_workspace_chooses_no_version(self):
        self.attack_shim("work")

    def test_a_directory_that_is_mounted_chooses_no_version(self):
        self.attack_shim("out")

    def test_the_users_own_choice_is_followed(self):
        self.program("mine/bin/python3", f"#!/bin/sh\n: >>{self.at('mine/ran')}\nexec {PYTHON} \"$@\"\n")
        pathlib.Path(self.at("home/.tool-versions")).write_text(f"python path:{self.at('mine')}\n")
        with Server("--workspace", self.at("work"), env=self.env, cwd=self.at("work")) as server:
            self.assert_prints(server.python("print(1)"), "1")
        self.assertTrue(os.path.exists(self.at("mine/ran")))

    def test_the_users_choice_is_not_kept_where_code_writes(self):
        os.symlink(self.at("work/tool-versions"), self.at("home/.tool-versions"))
        with Server("--workspace", self.at("work"), env=self.env) as server:
            self.assertIn(".tool-versions is in the workspace", server.python("1").text)
        self.assertFalse(os.path.exists(self.asked))

    def test_a_plugin_of_the_tool_is_not_where_code_writes(self):
        """Like pyenv, which runs the hooks of all plugins; a user may develop one there, directly or by a symlink."""
        plugins = self.at("home/.pyenv/plugins")
        for linked in (False, True):
            with self.subTest(linked=linked):
                hook = f"for hook in {plugins}/*/etc/pyenv.d/exec/*.bash; do [ -f $hook ] && . $hook; done"
                self.program("shims/python3", f"#!/bin/sh\n{hook}\nexec {PYTHON} \"$@\"\n")
                plugin = self.at("out") if linked else f"{plugins}/mine"
                os.makedirs(plugins if linked else plugin, exist_ok=True)
                if linked:
                    os.symlink(plugin, f"{plugins}/mine")
                else:
                    give_away(plugin)
                granted = ("--workspace", plugin)
                inside = plugin if CONTAINER else "/work"
                code = PLANT + f"plant({inside + '/etc/pyenv.d/exec/x.bash'!r}, {': >>' + self.marker!r})"
                with Server(*granted, "--python", PYTHON, env=self.env) as server:
                    self.assert_ok(server.python(code))
                with Server(*granted, env=self.env) as server:
                    self.assertIn("code", server.python("print(1)").text)
                self.assert_not_run("by the script")
                subprocess.run([self.at("shims/python3"), "-c", ""], env=self.env, check=True)  # the control
                self.assertTrue(os.path.exists(self.marker))
                os.unlink(self.marker)
                shutil.rmtree(f"{plugin}/etc")
                (os.unlink if linked else os.rmdir)(f"{plugins}/mine")

    def test_a_shim_gets_few_variables(self):
        self.program("shims/python3", f"#!/bin/sh\n/usr/bin/env >{self.asked}\nexec {PYTHON} \"$@\"\n")
        env = {**self.env, "PATH": f":.:{self.at('work')}/bin:" + self.env["PATH"], "ASDF_PYTHON_VERSION": "path:evil",
               "PYENV_VERSION": "evil", "BASH_ENV": self.at("work/evil"), "PYTHONSTARTUP": self.at("work/evil"),
               "PYENV_ROOT": self.at("shims")}
        with Server("--workspace", self.at("work"), env=env, cwd=self.at("work")) as server:
            self.assert_prints(server.python("print(1)"), "1")
        given = dict(line.split("=", 1) for line in pathlib.Path(self.asked).read_text().splitlines())
        self.assertEqual({name for name in given if name not in ("PWD", "_", "SHLVL", "OLDPWD")},
                         {"PATH", "HOME", "LC_ALL", "PYENV_ROOT"})
        self.assertEqual(given["PATH"], self.env["PATH"])


class Interpreters(Planting):
    def test_python_on_a_path_that_code_writes(self):
        for name in ("work", "out"):
            with self.subTest(name):
                self.need_mount(name)
                path = f"{self.at(name)}/bin:/usr/bin:/bin"
                result = self.attack(name, {"bin/python3": self.evil}, env={"PATH": path})
                self.assertIn("where code can change it", result.text)

    def test_relative_and_empty_entries_of_path(self):
        for entry in ("", ".", "bin"):
            with self.subTest(entry):
                result = self.attack("work", {"bin/python3": self.evil, "python3": self.evil},
                                     env={"PATH": f"{entry}:/usr/bin:/bin"}, cwd=self.at("work"))
                self.assert_prints(result, "next")

    def test_a_virtual_environment_in_a_directory_that_is_mounted(self):
        self.need_mount("out")
        result = self.attack("out", {"venv/bin/python": self.evil}, env={"VIRTUAL_ENV": self.at("out/venv")})
        self.assertIn("where code can change it", result.text)

    def test_a_path_through_the_workspace(self):
        """The path itself is outside: a symlink leads into the workspace, and one there out again."""
        self.program("tools/python3", f"#!/bin/sh\nexec {PYTHON} \"$@\"\n")
        os.symlink(self.at("tools"), self.at("work/tools"))
        os.symlink(self.at("work/tools"), self.at("by-way-of"))
        env = {**self.env, "PATH": f"{self.at('by-way-of')}:/usr/bin:/bin"}
        with Server("--workspace", self.at("work"), env=env) as server:
            self.assertIn("where code can change it", server.python("1").text)
        with Server("--workspace", self.at("out"), env=env) as server:  # the control
            self.assert_prints(server.python("print(1)"), "1")

    def rewrite_environment(self, config, link=None):
        """A session rewrites an environment in the workspace; the next server uses it as its interpreter."""
        minor = subprocess.run([PYTHON, "-c", "import sys; print(sys.version_info[1])"], capture_output=True)
        self.other = self.at("other")
        self.program("other/bin/python3", "\x7fELF")
        self.program(f"other/lib/python3.{int(minor.stdout)}/os.py", "")
        self.program("other/secret", "SECRET")
        if subprocess.run([PYTHON, "-m", "venv", "--without-pip", self.at("work/.venv")], capture_output=True).returncode:
            self.skipTest("venv: the module is not installed")
        for directory, _, _ in os.walk(self.at("work")):
            give_away(directory)
        give_away(self.at("work/.venv/pyvenv.cfg"))
        granted, inside = self.granted("work")
        with Server(*granted, env={**self.env, "VIRTUAL_ENV": self.at("work/.venv")}) as server:
            result = server.python("import sys; print(sys.prefix != sys.base_prefix)")
            if CONTAINER:
                self.assertIn("where code can change it", result.text)
            else:
                self.assert_prints(result, "True")  # the control: an unchanged environment
        code = f"import os\nopen({inside + '/.venv/pyvenv.cfg'!r}, 'w').write({config!r})\n"
        if link:
            code += f"p = {inside + '/.venv/bin/python'!r}\nos.unlink(p)\nos.symlink({link!r}, p)\n"
        with Server(*granted, env=self.env) as server:
            self.assert_ok(server.python(code))
        secret = self.at("other/secret")
        with Server(*granted, env={**self.env, "VIRTUAL_ENV": self.at("work/.venv")}) as server:
            result = server.python(f"import os\nprint(os.stat('/..').st_ino != os.stat('/').st_ino)\n"
                                   f"for p in ({secret!r}, '/..' + {secret!r}):\n"
                                   "    try: print(open(p).read())\n    except OSError: print('no')\n")
        self.assertNotIn("SECRET", result.text)
        return result

    def test_an_environment_whose_other_keys_name_the_root(self):
        result = self.rewrite_environment("home = /usr/bin\nhomework = //bin\n")
        if not CONTAINER:
            self.assert_prints(result, "False\nno\nno")

    def test_an_environment_that_names_another_directory(self):
        for link in (None, self.at("other/bin/python3")):
            with self.subTest(link):
                result = self.rewrite_environment(f"home = {self.at('other/bin')}\n", link)
                self.assertTrue(result.is_error)
                if not CONTAINER:
                    self.assertIn("code can write to the file that names", result.text)
                shutil.rmtree(self.at("work/.venv"))

    def test_an_environment_that_names_the_root(self):
        result = self.rewrite_environment("home = //bin\n")
        if os.path.exists("/lib/python3") and not CONTAINER:
            self.assertIn("the whole file system", result.text)

    def test_modules_beside_the_workspace(self):
        packages = self.at("home/.local/lib/python3.%d/site-packages/mine")
        minor = subprocess.run([PYTHON, "-c", "import sys; print(sys.version_info[1])"], capture_output=True)
        packages %= int(minor.stdout)
        os.makedirs(packages)
        with Server("--workspace", packages, env=self.env) as server:
            self.assertIn("the interpreter", server.python("1").text)
            self.assertIn("where code can change it", server.python("1").text)


class Busctl(Planting):
    """systemd's client, with which the server requests a control group."""

    # Looks to the server like a host with cgroup version 2 below systemd.
    LIKE_SYSTEMD = ("for at in $(awk '$3 == \"cgroup\" {print $2}' /proc/self/mounts); do umount -l $at; done; "
                    "mount -t tmpfs tmpfs /run; mkdir -p /run/systemd/system; exec \"$@\"")

    def like_systemd(self):
        if os.path.exists("/run/systemd/system"):
            return []
        wrap = ["unshare", "-m", "sh", "-ec", self.LIKE_SYSTEMD, "sh"]
        tried = subprocess.run([*wrap, "true"], capture_output=True)
        if tried.returncode:
            self.skipTest("mount: " + tried.stderr.decode(errors="replace").strip())
        return wrap

    def attack_busctl(self, name, entry, cwd=None):
        self.need_mount(name)
        wrap = self.like_systemd()
        env = {**self.env, "PATH": f"{entry}:/usr/bin:/bin"}
        done = subprocess.run([*wrap, *COMMAND, "doctor", "--json"], env=env, capture_output=True, timeout=120 * SLOW)
        detail = {row["protection"]: row["detail"] for row in json.loads(done.stdout)["protections"]}["memory"]
        if not re.search("systemd creates no scope|systemd is running|systemd runs in|systemd scope", detail):
            self.skipTest(f"systemd: the server asks it for nothing here: {detail}")
        self.attack(name, {"busctl": self.evil, "bin/busctl": self.evil}, env=env, cwd=cwd, wrap=wrap)
        # The control: a look-up on this PATH finds the planted program.
        subprocess.run(["sh", "-c", "busctl --version"], env=env, cwd=cwd, capture_output=True)
        self.assertTrue(os.path.exists(self.marker))

    def test_a_directory_of_the_workspace(self):
        self.attack_busctl("work", self.at("work/bin"))

    def test_a_directory_that_is_mounted(self):
        self.attack_busctl("out", self.at("out/bin"))

    def test_an_empty_entry(self):
        self.attack_busctl("work", "", cwd=self.at("work"))

    def test_a_relative_entry(self):
        self.attack_busctl("work", "bin", cwd=self.at("work"))


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


class Own(Planting):
    """The server's own program and libraries."""

    def test_the_program_is_not_replaced(self):
        program = self.at("work/bin/sandpiper")
        os.mkdir(self.at("work/bin"))
        shutil.copy(BINARY, program)
        if os.stat(self.at("work")).st_uid != os.geteuid():
            give_away(self.at("work/bin"))
        command = [*COMMAND[:-1], program]
        granted, inside = self.granted("work")
        with Server(*granted, env=self.env, command=command) as server:
            result = server.python(PLANT + f"plant({inside + '/bin/sandpiper'!r}, {self.evil!r})")
        subprocess.run([program, "--version"], capture_output=True)
        self.assert_not_run("at the next start")
        self.assertIn("the server's own program", result.text)
        with Server("--workspace", self.at("home/.."), env=self.env, command=command) as server:
            self.assertTrue(server.python("1").is_error)
        os.mkdir(self.at("data"))
        with Server("--mount", self.at("data"), env=self.env, command=command) as server:  # the control
            self.assert_prints(server.python("print(1)"), "1")

    def test_libraries_are_not_looked_for_in_the_workspace(self):
        if b"ld-linux" not in pathlib.Path(BINARY).read_bytes()[:4096]:
            self.skipTest("loader: the program is static")
        granted, _ = self.granted("work")
        for value in (":/usr/lib", "/usr/lib:", self.at("work/lib"), "lib"):
            with self.subTest(value):
                env = {**self.env, "LD_LIBRARY_PATH": value}
                done = subprocess.run([*COMMAND, "run", *granted, "-c", "print('ran')"], env=env, cwd=self.at("work"),
                                      capture_output=True, timeout=60 * SLOW)
                self.assertEqual((done.returncode, done.stdout), (2, b""), done.stderr)
                self.assertIn(b"LD_LIBRARY_PATH", done.stderr)
        audit = {**self.env, "LD_AUDIT": f"/nonexistent.so:{self.at('work')}/audit.so"}
        done = subprocess.run([*COMMAND, "run", *granted, "-c", "print('ran')"], env=audit, capture_output=True,
                              timeout=60 * SLOW)
        self.assertEqual((done.returncode, done.stdout), (2, b""), done.stderr)
        self.assertIn(b"LD_AUDIT", done.stderr)
        env = {**self.env, "LD_LIBRARY_PATH": ":/usr/lib"}
        done = subprocess.run([*COMMAND, "run", *granted, "-c", "print('ran')"], env=env, cwd="/", capture_output=True,
                              timeout=60 * SLOW)
        self.assertEqual(done.stdout, b"ran\n", done.stderr)  # the control


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
            self.assertIn("your home directory", server.python("import os\n" + code.replace("'.ssh", "os.getcwd() + '/.ssh")).text)
        self.assertFalse(os.path.exists(self.at("home/.ssh")))
        os.symlink(self.at("home"), self.at("alias"))
        for path in (self.at("home"), self.at("home/"), self.at("alias"), self.at("work/../home/."), "~"):
            self.refused(path, "your home directory")
        self.refused(self.temp, "contains your home directory")
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
                self.refused(home, "your home directory", env={"HOME": value})

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
