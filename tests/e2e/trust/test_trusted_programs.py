"""The server executes nothing on the host that code can write: interpreters, scripts in their place, busctl, itself."""
import json
import os
import pathlib
import re
import shutil
import subprocess
import unittest

from client import BINARY, COMMAND, SLOW, Server, give_away
from container_level import CONTAINER
from planting import PLANT, PYTHON, Planting

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


if __name__ == "__main__":
    unittest.main()
