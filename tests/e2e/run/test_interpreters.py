"""The interpreter is the user's: --python, an active virtual environment, a shim, python3."""
import glob
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

from client import BINARY, COMMAND, SLOW, Case, Server, give_away, need_userns, once, run_cli
from container_level import CONTAINER
from traces import descendants

SYSTEM_PYTHON = "/usr/bin/python3"


def make_venv(directory, *options):
    subprocess.run([SYSTEM_PYTHON, "-m", "venv", "--without-pip", *options, directory], check=True,
                   capture_output=True)
    packages = glob.glob(f"{directory}/lib/python3*/site-packages")[0]
    pathlib.Path(packages, "only_in_venv.py").write_text("value = 'from the venv'\n")


class Interpreters(Case):
    def setUp(self):
        need_userns()
        self.directory = tempfile.mkdtemp(prefix="sp-interpreter-")
        self.addCleanup(shutil.rmtree, self.directory, ignore_errors=True)
        os.chmod(self.directory, 0o755)

    def need_system_python(self):
        if not os.access(SYSTEM_PYTHON, os.X_OK):
            self.skipTest(f"python: no {SYSTEM_PYTHON}")

    def need_venv(self):
        self.need_system_python()
        if subprocess.run([SYSTEM_PYTHON, "-c", "import venv"], capture_output=True).returncode:
            self.skipTest("venv: the module is not installed")

    def where(self, server):
        return server.python("import sys; print(sys.prefix, sys.version_info[:2])").output

    def environment(self, **changes):
        return {"HOME": os.environ.get("HOME", "/"), "PATH": os.environ["PATH"], **changes}

    def test_by_flag(self):
        self.need_system_python()
        with Server("--python", SYSTEM_PYTHON) as server:
            self.assertTrue(self.where(server).startswith("/usr "), self.where(server))

    def test_by_flag_a_name_found_on_the_path(self):
        self.need_system_python()
        with Server("--python", "python3", env=self.environment(PATH="/usr/bin:/bin")) as server:
            self.assertTrue(self.where(server).startswith("/usr "))

    def test_by_flag_a_directory(self):
        self.need_venv()
        make_venv(f"{self.directory}/venv")
        with Server("--python", f"{self.directory}/venv") as server:
            self.assertIn(f"{self.directory}/venv ", self.where(server))
        with Server("--python", self.directory) as server:
            self.assertIn(f"{self.directory}/bin/python3: No such file", server.python("1").text)

    def assert_programs_are_the_sessions(self, server):
        """Under each name, in a shell, by PATH alone, and for a script that names env."""
        code = ("import os, subprocess, sys\n"
                "show = 'import sys; print(sys.executable, sys.prefix)'\n"
                "open('script', 'w').write('#!/usr/bin/env python3\\n' + show); os.chmod('script', 0o755)\n"
                "bare = {'PATH': os.environ['PATH']}\n"
                "print({subprocess.check_output(command, text=True, **more).split()[-1] == sys.prefix for command, more in (\n"
                "    (['python', '-c', show], {}), (['python3', '-c', show], {}), (f'python -c \"{show}\"', {'shell': True}),\n"
                "    (['./script'], {}), (['python3', '-c', show], {'env': bare}))})")
        self.assertEqual(server.python(code).output, "{True}")

    def test_programs_named_python_are_the_sessions(self):
        self.need_system_python()
        for flags in ((), ("--python", SYSTEM_PYTHON)):
            with Server(*flags) as server:
                self.assert_programs_are_the_sessions(server)
                code = "import subprocess, sys; print(subprocess.check_output(['python', '-c', 'import sys; print(sys.executable)'], text=True).strip() == sys.executable)"
                self.assertEqual(server.python(code).output, "True")

    def test_programs_of_a_virtual_environment_are_the_sessions(self):
        self.need_venv()
        make_venv(f"{self.directory}/venv")
        with Server("--python", f"{self.directory}/venv/bin/python") as server:
            self.assert_programs_are_the_sessions(server)
            self.assertIn("from the venv", server.python("import os; os.system('python -c \"import only_in_venv as o; print(o.value)\"')").text)

    @unittest.skipUnless(CONTAINER, "isolation: there is a /proc")
    def test_ps_says_why_it_fails(self):
        with Server() as server:
            self.assertRegex(server.python("import os; os.system('ps aux')").text, "^ps: this sandbox has no /proc")

    @unittest.skipIf(CONTAINER, "isolation: this level has no /proc")
    @unittest.skipUnless(shutil.which("ps", path="/usr/bin:/bin"), "ps: not installed")
    def test_processes_are_listed(self):
        with Server() as server:
            for command in ("ps aux", "ps auxww", "ps -ef", "ps"):
                self.assertIn("sandpiper-init", server.python(f"import os; os.system('{command}')").text, command)

    @once
    def test_pip_names_the_tool_at_once(self):
        # A name that no machine has installed: pip says of another that it is there.
        with Server() as server:
            for command in ("pip install nowhere", "pip3 install -q nowhere", "python -m pip install -U nowhere",
                            "{sys.executable} -m pip install --user nowhere", "python3 -W ignore -m pip download nowhere"):
                if server.python("import sys; sys.version_info < (3, 10)").output.endswith("True"):
                    self.skipTest("python: 3.9 does not know its arguments")
                result = server.python(f"import os, sys\nos.system(f'{command}')")
                self.assertIn('use the tool install_package: packages=["nowhere"]', result.text, command)
                self.assertNotIn("Traceback", result.text)
            self.assertNotIn("install_package", server.python("import os; os.system('pip --version; pip install ./none.whl')").text)
        with Server("--install", "off") as server:
            self.assertRegex(server.python("import os; os.system('pip install nowhere')").text, "^pip: code in this sandbox has no network\n")

    def test_a_virtual_environment_by_flag(self):
        self.need_venv()
        make_venv(f"{self.directory}/venv")
        with Server("--python", f"{self.directory}/venv/bin/python") as server:
            self.assert_prints(server.python("import only_in_venv; print(only_in_venv.value)"),
                               "from the venv")

    def test_the_active_virtual_environment(self):
        self.need_venv()
        make_venv(f"{self.directory}/venv")
        env = self.environment(VIRTUAL_ENV=f"{self.directory}/venv")
        with Server(env=env) as server:
            self.assert_prints(server.python("import sys, only_in_venv; print(only_in_venv.value, "
                                             "sys.prefix != sys.base_prefix)"),
                               "from the venv True")

    def test_the_virtual_environment_that_the_program_is_installed_in(self):
        self.need_venv()
        make_venv(f"{self.directory}/venv")
        program = shutil.copy(BINARY, f"{self.directory}/venv/bin/sandpiper")
        with Server(env=self.environment(), command=[*COMMAND[:-1], program]) as server:
            self.assert_prints(server.python("import only_in_venv; print(only_in_venv.value)"), "from the venv")

    def test_a_virtual_environment_with_system_packages(self):
        self.need_venv()
        make_venv(f"{self.directory}/venv", "--system-site-packages")
        with Server("--python", f"{self.directory}/venv/bin/python3") as server:
            self.assert_prints(server.python("import only_in_venv, sys\n"
                                             "print(any('dist-packages' in p or p.startswith('/usr')"
                                             " for p in sys.path))"), "True")

    def test_a_virtual_environment_with_spaces_and_umlauts_in_its_path(self):
        self.need_venv()
        make_venv(f"{self.directory}/my vénv")
        with Server("--python", f"{self.directory}/my vénv/bin/python") as server:
            self.assert_prints(server.python("import only_in_venv; print(1)"), "1")

    def test_a_virtual_environment_is_read_only(self):
        self.need_venv()
        make_venv(f"{self.directory}/venv")
        with Server("--python", f"{self.directory}/venv/bin/python") as server:
            result = server.python("import only_in_venv as m\nopen(m.__file__, 'a').write('x')")
            self.assertTrue(result.is_error)
        for path in pathlib.Path(self.directory).rglob("only_in_venv.py"):
            self.assertEqual(path.read_text(), "value = 'from the venv'\n")

    def test_a_virtual_environment_that_is_mounted_in_the_workspace(self):
        """Like a container's volume beside a project from the host."""
        self.need_venv()
        work = f"{self.directory}/work"
        os.makedirs(f"{work}/.venv")
        os.mkdir(f"{self.directory}/volume")
        script = f'mount --bind {self.directory}/volume {work}/.venv; {SYSTEM_PYTHON} -m venv --without-pip {work}/.venv; exec "$@"'
        wrap = ["unshare", "-Urm", "sh", "-ec", script, "sh"]
        tried = subprocess.run([*wrap, "true"], capture_output=True)
        if tried.returncode:
            self.skipTest("mount: " + tried.stderr.decode(errors="replace").strip())
        with Server("--workspace", work, "--python", f"{work}/.venv/bin/python", wrap=wrap) as server:
            result = server.python("import sys; print(sys.prefix)")
            if CONTAINER:
                self.assertIn("where code can change it", result.text)
                return
            self.assert_prints(result, f"{work}/.venv")
            self.assert_kind(server.python("open('/work/.venv/pyvenv.cfg', 'a')"), "error")

    def test_a_symbolic_link_to_an_interpreter(self):
        self.need_system_python()
        os.symlink(SYSTEM_PYTHON, f"{self.directory}/my-python")
        with Server("--python", f"{self.directory}/my-python") as server:
            self.assert_prints(server.python("print(1)"), "1")

    def test_a_shell_script_that_finds_the_interpreter(self):
        """Like those that pyenv, asdf and mise put on the PATH."""
        self.need_system_python()
        shim = pathlib.Path(self.directory, "python3")
        shim.write_text(f"#!/bin/sh\nexec {SYSTEM_PYTHON} \"$@\"\n")
        shim.chmod(0o755)
        env = self.environment(PATH=f"{self.directory}:{os.environ['PATH']}")
        with Server(env=env) as server:
            self.assertTrue(self.where(server).startswith("/usr "))

    def test_the_pyenv_shim_if_there_is_one(self):
        shims = [path for path in os.environ["PATH"].split(":") if path.endswith("shims")
                 and os.access(path + "/python3", os.X_OK)]
        if not shims:
            self.skipTest("pyenv: no shim on the PATH")
        expected = subprocess.run([shims[0] + "/python3", "-c", "import sys; print(sys.prefix)"],
                                  capture_output=True, text=True).stdout.strip()
        env = {**os.environ, "PATH": shims[0] + ":" + os.environ["PATH"]}
        with Server(env=env) as server:
            self.assertTrue(self.where(server).startswith(expected))

    def test_every_installed_version(self):
        versions = [path for path in sorted(glob.glob("/usr/bin/python3.*[0-9]") + glob.glob(
            os.path.expanduser("~/.pyenv/versions/3.*/bin/python3"))) if os.access(path, os.X_OK)]
        tried = 0
        for path in versions:
            version = subprocess.run([path, "-c", "import sys; print(sys.version_info >= (3, 9))"],
                                     capture_output=True, text=True).stdout.strip()
            if version != "True":
                continue
            tried += 1
            with self.subTest(path=path), Server("--python", path) as server:
                server.python("kept = 1")
                self.assert_kind(server.python("1 / 0"), "error")
                self.assert_prints(server.python("print(kept)"), "1")
        if not tried:
            self.skipTest("python: no CPython of at least 3.9")

    def test_the_users_own_site_settings_are_not_run(self):
        """A sitecustomize in the workspace or PYTHON* variables must not reach the driver."""
        with tempfile.TemporaryDirectory(prefix="sp-workspace-") as work:
            for name in ("sitecustomize", "usercustomize", "json", "socket", "struct", "traceback"):
                pathlib.Path(work, name + ".py").write_text("raise SystemExit('planted')\n")
            env = self.environment(PYTHONPATH=work, PYTHONINSPECT="1", PYTHONSAFEPATH="")
            give_away(work)
            with Server("--workspace", work, env=env, cwd=work) as server:
                self.assert_prints(server.python("print(1)"), "1")

    def test_hash_seed_of_the_servers_environment_is_the_codes(self):
        hashes = set()
        for _ in range(2):
            with Server(env=self.environment(PYTHONHASHSEED="4242")) as server:
                self.assert_prints(server.python("import sys, os; print(sys.flags.hash_randomization,"
                                                 " os.environ['PYTHONHASHSEED'])"), "1 4242")
                hashes.add(server.python("print(hash('tern'))", reset=True).output)
                hashes.add(server.python("print(hash('tern'))", session="other").output)
        self.assertEqual(len(hashes), 1)
        with Server(env=self.environment(PYTHONHASHSEED="")) as server:  # the same for all without one
            self.assert_prints(server.python("import os; print(os.environ['PYTHONHASHSEED'])"), "0")
        with Server(env=self.environment(PYTHONHASHSEED="many")) as server:
            self.assertIn('PYTHONHASHSEED must be "random" or an integer from 0 to 4294967295',
                          server.python("1").text)


class Missing(Case):
    """Without a usable interpreter the server keeps running and reports it."""

    def assert_sentence(self, server, *words):
        result = server.python("1")
        self.assertTrue(result.is_error)
        for word in words:
            self.assertIn(word, result.text)
        self.assertEqual(server.request("ping")["result"], {})
        self.assertTrue(server.python("2").is_error)

    def test_a_path_that_does_not_exist(self):
        with Server("--python", "/nonexistent/python3") as server:
            self.assert_sentence(server, "/nonexistent/python3", "--python")

    def test_what_the_driver_has_loaded_is_never_counted(self):
        """From Python 3.12 on, as None is not; the session must be older than the first call."""
        with Server() as server:
            deadline = time.monotonic() + 20 * SLOW
            while not any("sp-session" in self.name_of(pid) for pid in descendants(server.pid)) and time.monotonic() < deadline:
                time.sleep(0.02)
            code = ("import os, sys\nfrom sys import getrefcount as count\nclass Own: pass\n"
                    "shared = [os, os.environ, os.path.join, os.path.join.__code__, type(os.environ)]\n"
                    "print(sys.version_info >= (3, 12), {count(one) == count(None) for one in shared}, count(Own()), count(10 ** 9 + len('a')))")
            since, same, *own = server.python(code).output.split(" ")
            self.assertEqual(same, "{True}" if since == "True" else "{False}")
            self.assertTrue(all(int(count) < 10 for count in own), own)
            self.assertEqual(server.python("import gc; gc.unfreeze(); print(gc.collect() >= 0, os.path.join('a', 'b'))").output, "True a/b")

    def name_of(self, pid):
        try:
            return pathlib.Path(f"/proc/{pid}/comm").read_text()
        except OSError:
            return ""

    def test_no_python_on_the_path(self):
        with Server(env={"PATH": "/nonexistent", "HOME": "/"}) as server:
            self.assert_sentence(server, "--python")

    def test_a_program_that_is_no_python(self):
        with Server("--python", "/bin/true") as server:
            self.assert_sentence(server, "/bin/true")

    def test_a_program_that_hangs(self):
        with tempfile.TemporaryDirectory(prefix="sp-interpreter-") as directory:
            path = pathlib.Path(directory, "python3")
            path.write_text("#!/bin/sh\nexec sleep 60\n")
            path.chmod(0o755)
            os.chmod(directory, 0o755)
            with Server("--python", str(path), check=False) as server:
                self.assertTrue(server.python("1", _timeout=30).is_error)
                self.assertEqual(server.end()[0], 0)
                self.assertEqual(server.left(), [])

    def test_doctor_names_it(self):
        done = run_cli("doctor", "--python", "/nonexistent/python3")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn(b"/nonexistent/python3", done.stdout)


if __name__ == "__main__":
    assert sys.version_info >= (3, 9)
    unittest.main()
