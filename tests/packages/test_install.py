"""install_package, from the call to the import: packages of the tests' own index and of a directory of wheels."""
import json
import os
import pathlib
import re
import shutil
import signal
import tempfile
import threading
import time
import unittest

from client import Case, Server, need_userns, run_cli
from container_level import CONTAINER
from index import projects
from index.server import Index, hang
from traces import command_of, descendants

LOGIN, PASSWORD = "someone", "pass-word-9137"


class Installing(Case):
    """Servers whose packages are below one temporary directory."""

    @classmethod
    def setUpClass(cls):
        need_userns()
        cls.directory = tempfile.mkdtemp(prefix="sp-install-")
        cls.addClassCleanup(cls.remove)
        os.chmod(cls.directory, 0o755)
        cls.wheels = cls.directory + "/wheels"
        projects.honest(cls.wheels)
        projects.sources(cls.wheels)
        projects.save(cls.wheels, projects.Wheel("slow"), projects.Wheel("slow-parent", requires=["slow"]))

    @classmethod
    def remove(cls):
        """Removes the directory, at which the cleanup helper of a killed server may work too."""
        for _ in range(100):
            if not os.path.exists(cls.directory):
                return
            shutil.rmtree(cls.directory, ignore_errors=True)
            time.sleep(0.05)

    def serve(self, *flags, **options):
        return Server("--cache", self.directory + "/cache", *flags, **options)

    def offline(self, *flags, **options):
        return self.serve("--no-index", "--find-links", self.wheels, *flags, **options)

    def install(self, server, *packages, **arguments):
        return server.call("install_package", packages=list(packages), **arguments)

    def assert_installed(self, result, *words):
        self.assertFalse(result.is_error, result.text)
        for word in words:
            self.assertIn(word, result.text)

    def assert_failed(self, result, *words):
        self.assertTrue(result.is_error, result.text)
        for word in words:
            self.assertIn(word, result.text)
        self.assertNotIn("Traceback", result.text)

    def assert_not_there(self, server, module):
        self.assertEqual(server.python(f"import {module}").status.kind, "error")

    def assert_layers(self, server, names):
        self.assert_prints(server.python(server.here("import os; print(os.listdir('/packages'))")), repr(names))


class Offline(Installing):
    def test_an_installed_package_stays_importable_in_its_session(self):
        with self.offline() as server:
            hint = server.python("x = 1\nimport plain").text
            self.assertIn("install_package", hint)
            self.assertNotIn('packages=["plain"]', hint)  # nobody has said that such a package is what the code means
            result = self.install(server, "plain<2", "parent[more]", "tomli; python_version < '3'")
            self.assert_installed(result, "installed plain 1.1, parent 1.2, shared 2.5 (3 packages, ",
                                  "; import as: plain, parent\n", "skipped, not for this machine: \"tomli; ")
            self.assert_prints(server.python("import plain, parent, shared; print(x, parent.VERSION)"), "1 1.1")
            log = re.search(server.here(r"\[pip log: (/tmp/output/install-\d+\.txt)\]"), result.text)[1]
            self.assertIn("parent", server.read(log).text)
            # However the state was restored, and in every interpreter.
            there = "import plain, subprocess as s, sys; print(plain.VERSION, s.run([sys.executable, '-c', " \
                    "'import shared; print(shared.VERSION)'], capture_output=True, text=True).stdout)"
            self.assertTrue(server.python("import os; os._exit(3)").is_error)
            for arguments in ({}, {"undo": True}, {"reset": True}, {"fresh": True}, {"session": "other"}):
                with self.subTest(arguments):
                    self.assert_prints(server.python(there, **arguments), "1.1 2.5\n")
            self.assert_prints(server.python("import subprocess; print(subprocess.run('parent-tool', "
                                             "capture_output=True).returncode)"), "1")
            self.a_second_version(server)

    def a_second_version(self, server):
        result = self.install(server, "plain")
        self.assertEqual(result.text, "already installed: plain 1.1\n")
        result = self.install(server, "plain", upgrade=True)
        self.assert_installed(result, "installed plain 2.0 (1 package, ", "replaced plain 1.1", "reset=true")
        result = server.python("import plain; print(plain.VERSION)")
        self.assertEqual(result.output, "1.1")
        self.assertIn("`plain` was imported before plain 2.0 was installed", result.status.field("note"))
        self.assertIsNone(server.python("1").status.field("note"))
        self.assert_prints(server.python(server.here("import sys; print('/packages/2' in sys.path)")), "True")
        result = server.python("import plain; print(plain.VERSION)", reset=True)
        self.assertEqual((result.output, result.status.field("note")), ("2.0", None))

    def test_a_failed_installation_says_why_and_changes_nothing(self):
        with self.offline("--deny-package", "shared,forbidden*") as server:
            for packages, words in (
                (["no-such-thing"], ("not found: ", "no-such-thing")),
                (["plian"], ("not found: ", "Similar names: plain.")),
                (["pandsa"], ("not found: ", "the directory of wheels has no package pandsa; the directory has ")),
                (["plain>=7"], ("not found: ", "Available versions: ", "2.0")),
                (["elsewhere"], ("no wheel for this platform: ", "--allow-sdist")),
                (["from-source"], ("no wheel for this platform: ", "--allow-sdist")),
                (["plain==1.0", "parent"], ("version conflict: ", "plain>=1.1")),
                (["Forbidden.One", "plain"], ("blocked by policy: forbidden-one", "--deny-package forbidden*")),
                (["wants-new"], ("blocked by policy: shared", "--deny-package shared", "depends on it")),
            ):
                with self.subTest(packages):
                    self.assert_failed(self.install(server, *packages), "not installed, ", *words, "Nothing has changed.")
            self.assert_layers(server, [])

    def test_only_requirements_are_accepted(self):
        with self.offline() as server:
            result = self.install(server, "plain", "-r x", "git+https://example.org/x", "./x.whl", "plain parent")
            self.assert_violation(result, "/packages/1: \"-r x\" is a pip option", "/packages/2:", "is a URL or a path",
                                  "/packages/3:", "/packages/4:", "separate item")
            self.assertNotIn("/packages/0", result.text)
            self.assert_violation(server.call("install_package", packages=[]), "/packages")
            self.assert_violation(server.call("install_package"), "packages")
            self.assert_not_there(server, "plain")
            # A bare string counts as a list of one.
            self.assert_installed(server.call("install_package", packages="plain"), "installed plain 2.0")

    def test_without_install_nothing_mentions_it(self):
        with self.offline("--install", "off") as server:
            names = [tool["name"] for tool in server.request("tools/list")["result"]["tools"]]
            self.assertEqual(names, ["run_python", "write_file", "read_file"])
            self.assert_error_code(server.request("tools/call", {"name": "install_package", "arguments": {"packages": []}}),
                                   -32602)
            self.assertNotIn("install_package", server.python("import plain").text)

    def test_the_description_says_what_is_allowed(self):
        with self.offline("--allow-package", "plain, sha*", "--preinstall", "shared") as server:
            tool = server.request("tools/list")["result"]["tools"][3]
            for words in ("a directory of wheels", "Allowed packages: plain, sha*.", "Only wheels", "shared"):
                self.assertIn(words, tool["description"])
            self.assertLess(len(tool["description"]), 2000)
            self.assert_failed(self.install(server, "parent"), "parent is not an allowed package (--allow-package)")

    def test_nothing_is_installed_without_the_users_approval(self):
        with self.offline("--install", "ask") as server:
            self.assertIn("The user is asked for approval first", server.request("tools/list")["result"]["tools"][3]["description"])
            self.assert_failed(self.install(server, "plain"), "blocked by policy", "--install on")
            self.assert_not_there(server, "plain")
        with self.offline("--install", "ask", "--auto-install") as server:
            self.assertIn("--auto-install", server.python("1").text)

    def test_the_structured_form_is_complete(self):
        with self.offline("--structured") as server:
            result = self.install(server, "parent")
            object = result.raw["structuredContent"]
            self.assertEqual(json.loads(result.text), object)
            self.assertEqual(object["status"], "installed")
            self.assertEqual({row["name"]: (row["version"], row["imports"], row["requested"]) for row in object["installed"]},
                             {"parent": ("1.2", ["parent"], True), "plain": ("2.0", ["plain"], False)})
            result = self.install(server, "parent", "no-such-thing")
            self.assertTrue(result.is_error)
            self.assertEqual(result.raw["structuredContent"]["reason"], "not_found")

    def test_preinstalled_packages_are_there_for_the_run_command(self):
        flags = ("--cache", self.directory + "/cache", "--no-index", "--find-links", self.wheels)
        done = run_cli("run", *flags, "--preinstall", "plain", "-c", "import plain; print('found')")
        self.assertEqual((done.returncode, done.stdout), (0, b"found\n"), done.stderr)
        done = run_cli("run", *flags, "--preinstall", "no-such-thing", "-c", "print('ran')")
        self.assertEqual((done.returncode, done.stdout), (0, b"ran\n"))
        self.assertIn(b"--preinstall: not installed, not found", done.stderr)

    def test_preinstalled_packages_are_there_for_the_first_call(self):
        with self.offline("--preinstall", "parent", "--preinstall", "shared<2") as server:
            self.assert_prints(server.python("import parent, shared; print(parent.VERSION, shared.VERSION)"), "2.0 1.5")
        with self.offline("--preinstall", "no-such-thing") as server:
            result = server.python("print(1)")
            self.assert_prints(result, "1")
            self.assertIn("--preinstall: not installed, not found", result.status.field("note"))
            self.assertIsNone(server.python("print(2)").status.field("note"))

    def test_missing_imports_are_installed_before_the_code_runs(self):
        with self.offline("--auto-install", "--deny-package", "shared") as server:
            result = server.python("import os\nn = globals().get('n', 0) + 1\nimport parent\nprint(n, parent.VERSION)")
            self.assert_prints(result, "1 2.0")
            self.assertIn("installed parent 1.2, plain 2.0", result.status.field("note"))
            self.assertIn("<cell 1>", server.python("1/0").text.replace("<cell 2>", "<cell 1>"))
            result = server.python("try:\n    import nowhere\nexcept ImportError:\n    print('as expected')")
            self.assert_prints(result, "as expected")
            result = server.python("import no_such_thing")
            self.assertEqual(result.status.kind, "error")
            self.assertIn("not found", result.status.field("note"))
            result = server.python("import shared")
            self.assertEqual((result.status.kind, result.status.field("note")), ("error", None))

    def test_names_that_anybody_can_take_are_not_installed(self):
        with Index(self.wheels) as index, self.serve("--index-url", index.url, "--auto-install") as server:
            result = server.python("import plain")
            self.assertEqual((result.status.kind, result.status.field("note")), ("error", None), result.text)
            for line in ("!pip install requirements.txt", "%pip install requirements.txt", "!{sys.executable} -m pip install requirements.txt"):
                self.assertIn("the lines of requirements.txt", server.python("import sys\n" + line).text, line)
            for names, words in ((["requirements.txt"], "is a file, not a package; send its lines"), (["pyproject.toml"], "is a file")):
                self.assert_violation(self.install(server, *names), words)
            self.assertIn("standard library", self.install(server, "sqlite3").text)
            self.assert_failed(self.install(server, "symbol"), "standard library")
            self.assertEqual(index.requests, [])
            self.assertIn("plain 2.0", server.python("%pip install plain\nimport plain").text)  # which the code names
        with Index(self.wheels) as index, self.serve("--index-url", index.url, "--auto-install", "--allow-package", "plain") as server:
            self.assert_prints(server.python("import plain; print(plain.VERSION)"), "2.0")
        done = run_cli("run", "--preinstall", "requirements.txt", "-c", "1")
        self.assertEqual(done.returncode, 2)
        self.assertIn(b"is a file, not a package", done.stderr)

    def test_pip_lines_are_installed_before_the_code_runs(self):
        with self.offline("--auto-install", "--deny-package", "shared") as server:
            result = server.python("%pip install -q 'parent>=1'\nimport plain\nprint(plain.VERSION)")
            self.assert_prints(result, "installed: parent>=1\n2.0")
            self.assertIn("parent 1.2", result.status.field("note"))
            result = server.python("!pip install shared no-such-thing\nprint(_exit_code)")
            self.assertIn("install_package", result.text)
            self.assertIn("not found", result.status.field("note"))
            self.assertIn("exited with status 1", result.status.field("note"))
            self.assertIn("1\n", result.text)
        with self.offline() as server:
            self.assertIn('packages=["plain"]', server.python("%pip install plain").text)

    def test_a_package_larger_than_its_disk_leaves_nothing(self):
        wheels = self.directory + "/large"
        projects.huge(wheels, 8 << 20)
        projects.save(wheels, projects.Wheel("plain"))
        with self.serve("--no-index", "--find-links", wheels, "--package-disk", "4M") as server:
            self.assert_failed(self.install(server, "huge"), "package disk full", "--package-disk", "Nothing has changed.")
            self.assert_installed(self.install(server, "plain"), "installed plain 1.0")
            self.assert_layers(server, ["1"])


    def test_files_that_only_the_user_can_reach(self):
        with tempfile.TemporaryDirectory() as private:
            constraint = pathlib.Path(private, "constraint")
            constraint.write_text("plain<2\n")
            with self.offline("--constraint", str(constraint)) as server:
                self.assert_installed(self.install(server, "plain"), "installed plain 1.1")
                constraint.write_text("plain>1\n")
                self.assert_installed(self.install(server, "plain", upgrade=True), "plain 2.0")
            wheels = shutil.copytree(self.wheels, private + "/wheels")
            with self.serve("--no-index", "--find-links", str(wheels)) as server:
                result = self.install(server, "plain")
                if result.is_error:
                    self.assert_failed(result, "an id of its own", "let everybody read it")
                else:
                    self.assert_installed(result, "installed plain 2.0")

    def test_source_archives_of_a_directory(self):
        with self.offline("--allow-sdist") as server:
            self.assert_installed(self.install(server, "from-source"), "installed from-source 1.0, plain 2.0")
            self.assert_prints(server.python("import from_source, plain; print(plain.VERSION)"), "2.0")
        with self.offline("--allow-sdist", "--package-disk", "100") as server:
            self.assert_failed(self.install(server, "from-source"), "--package-disk")


class WithIndex(Installing):
    def test_source_archives_are_built_where_the_user_allows_it(self):
        with Index(self.wheels) as index, self.serve("--index-url", index.url, "--allow-sdist") as server:
            self.assert_installed(self.install(server, "from-source"), "installed from-source 1.0, plain 2.0")
            self.assert_prints(server.python("import from_source, plain; print(plain.VERSION)"), "2.0")
            self.assert_failed(self.install(server, "unbuildable"), "the build from source failed")

    def test_credentials_of_an_index_are_never_shown(self):
        with Index(self.wheels, auth=(LOGIN, PASSWORD)) as index, \
                tempfile.TemporaryFile() as stderr:
            url = index.url.replace("://", f"://{LOGIN}:{PASSWORD}@")
            with self.serve("--index-url", url, stderr=stderr, env={
                    **os.environ, "SANDPIPER_LOG": "trace"}) as server:
                said = [json.dumps(server.request("tools/list"))]
                for packages in (["parent"], ["no-such-thing"], ["lost-child"]):
                    result = self.install(server, *packages)
                    said += [result.text, server.read(re.search(server.here(r"/tmp/output/[\w-]+\.txt"), result.text)[0]).text]
                self.assertIn("installed parent 1.2", said[1])
                self.assert_prints(server.python("import parent; print(parent.VERSION)"), "2.0")
                said.append(server.python(server.here(
                    "import os, glob\nprint(dict(os.environ))\n"
                    "found = glob.glob('/packages/**', recursive=True) + glob.glob('/tmp/**', recursive=True)\n"
                    "for path in ['/proc/self/mountinfo', *found]:\n"
                    "    try: print(open(path, errors='replace').read())\n"
                    "    except OSError: pass  # a directory; /proc, where it is closed")).text)
            stderr.seek(0)
            said.append(stderr.read().decode())
            for text in said:
                self.assertNotIn(PASSWORD, text)
            self.assertTrue(all(sent.startswith("Basic ") for *_, sent in index.requests if sent))
        with Index(self.wheels, auth=(LOGIN, PASSWORD)) as index, self.serve("--index-url", index.url) as server:
            self.assert_failed(self.install(server, "plain"), "the index requires credentials", "--index-url")

    def test_over_tls_with_a_certificate_of_the_users(self):
        with Index(self.wheels, tls=True) as index:
            with self.serve("--index-url", index.url) as server:
                self.assert_failed(self.install(server, "plain"), "index unreachable", "--index-url")
            with self.serve("--index-url", index.url, "--index-cert", str(index.certificate)) as server:
                self.assert_installed(self.install(server, "plain"), "installed plain 2.0")

    def test_files_on_another_host_need_a_flag_that_is_named(self):
        with Index(self.wheels) as files, Index(self.wheels, files_at=files.url.replace("simple", "files")) as index:
            with self.serve("--index-url", index.url) as server:
                self.assert_failed(self.install(server, "plain"), "blocked by policy", files.host, "--index-host")
            with self.serve("--index-url", index.url, "--index-host", files.host) as server:
                self.assert_installed(self.install(server, "plain"), "installed plain 2.0")

    def test_an_index_that_never_responds(self):
        with Index(self.wheels) as index:
            url = index.url
        with self.serve("--index-url", url) as server:
            self.assert_failed(self.install(server, "plain"), "index unreachable")

    def test_other_calls_are_served_and_a_second_install_waits(self):
        with Index(self.wheels) as index, self.serve("--index-url", index.url) as server:
            reached = threading.Event()

            def wait(request):
                reached.set()
                hang(request)

            index.rules["/files/slow-1*"] = wait
            slow = server.start("tools/call", {"name": "install_package", "arguments": {"packages": ["slow-parent"]},
                                               "_meta": {"progressToken": "p"}})
            second = server.start_call("install_package", packages=["plain"])
            self.assertTrue(reached.wait(60))
            time.sleep(2.2)  # a call that comes at once waits for what it may need
            self.assert_prints(server.python("print(1)"), "1")
            self.assertFalse(server.write("a.txt", "a").is_error)
            self.assertIn("a", server.read("a.txt").text)
            self.assertEqual(index.count("/files/plain"), 0)
            server.cancel(slow)
            self.assert_installed(server.finish_call(second), "installed plain 2.0")
            self.assert_not_there(server, "slow_parent")
            self.assert_prints(server.python("import plain; print('there')"), "there")
            self.assert_layers(server, ["1"])
            del index.rules["/files/slow-1*"]
            self.assert_installed(self.install(server, "slow-parent"), "installed slow-parent 1.0, slow 1.0")

    @unittest.skipIf(CONTAINER, "container: its steps have one uid, and run one after the other")
    def test_the_last_step_loads_pip_while_the_first_fetches_and_another_replaces_it(self):
        with Index(self.wheels) as index, self.serve("--index-url", index.url) as server:
            reached, go = threading.Event(), threading.Event()

            def wait(request):
                reached.set()
                go.wait(60)
                request.honest(request.wfile.write)

            index.rules["/files/slow-1*"] = wait
            for is_killed in (True, False):
                call = server.start_call("install_package", packages=["slow" if is_killed else "slow-parent"])
                self.assertTrue(reached.wait(60))
                end, waiting = time.monotonic() + 30, []
                while not waiting and time.monotonic() < end:
                    waiting = [pid for pid in descendants(server.pid) if b"installer.py\0install\0" in command_of(pid)]
                self.assertEqual(len(waiting), 1)
                if is_killed:
                    os.kill(waiting[0], signal.SIGKILL)
                go.set()
                self.assert_installed(server.finish_call(call), "installed slow")
            self.assert_prints(server.python("import slow, slow_parent; print('there')"), "there")

    def test_the_server_exits_during_an_install(self):
        with Index(self.wheels) as index:
            reached = threading.Event()

            def wait(request):
                reached.set()
                hang(request)

            index.rules["/files/*"] = wait
            with self.serve("--index-url", index.url) as server:
                server.start_call("install_package", packages=["plain"])
                server.start_call("install_package", packages=["shared"])
                self.assertTrue(reached.wait(60))

    def test_a_limit_covers_the_code_and_not_the_installer(self):
        """Code that reports a missing package while it runs does not stop its time limit."""
        lacks = ("import os, socket, struct, sys, time\n"
                 "words = [b'needs', b'cell', sys._getframe().f_code.co_filename.strip('<cel >').encode(), b'name', b'plain']\n"
                 "body = b''.join(struct.pack('<I', len(word)) + word for word in words)\n"
                 "socket.socket(fileno=os.dup(64)).sendall(struct.pack('<I', len(body)) + body)\n")
        with Index(self.wheels) as index, self.serve("--index-url", index.url, "--auto-install", "--allow-package", "*") as server:
            go_on = threading.Event()
            index.rules["/files/plain*"] = lambda request: go_on.wait()
            try:
                result = server.python(lacks + "while True: time.sleep(0.01)", timeout_s=2)
                self.assertEqual(result.status.kind, "timeout", result.text)
                result = server.python("import threading\n"
                                       "def nag():\n    while True:\n        try: " + lacks.replace("\n", "; ").rstrip("; ") +
                                       "\n        except OSError: pass\n        time.sleep(0.001)\n"
                                       "threading.Thread(target=nag, daemon=True).start()\nwhile True: time.sleep(0.01)", timeout_s=2)
                self.assertEqual(result.status.kind, "timeout", result.text)
            finally:
                go_on.set()
            self.assertNotIn("/files/plain", " ".join(map(str, index.requests)))
            # The control: an installation by the server does not count as the code's time.
            index.rules["/files/plain*"] = lambda request: (time.sleep(3), request.honest())
            self.assert_prints(server.python("import plain; print(plain.VERSION)", reset=True, timeout_s=2), "2.0")

    def test_a_run_that_waits_for_packages_can_be_cancelled(self):
        with Index(self.wheels) as index, self.serve("--index-url", index.url, "--auto-install", "--allow-package", "*") as server:
            reached = threading.Event()

            def wait(request):
                reached.set()
                hang(request)

            index.rules["/files/*"] = wait
            self.assert_prints(server.python("x = 1; print(x)"), "1")
            call = server.start_call("run_python", code="import plain; x = 2")
            self.assertTrue(reached.wait(60))
            self.assert_prints(server.python("print(2)", session="other"), "2")
            server.cancel(call)
            self.assertEqual(server.python("print(x)").output, "1")
