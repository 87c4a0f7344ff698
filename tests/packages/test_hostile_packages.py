"""Packages of an index are hostile, and so is the code that runs during an installation: neither may gain anything."""
import base64
import json
import os
import pathlib
import re
import subprocess
import tempfile
import threading
import time
import venv

from client import Case, Server, give_away, need_userns
from container_level import CONTAINER, directories, where_it_is
from index import projects
from index.server import Index
from libraries import PYTHON
from pictures import png

SECRET = "w0rd-of-the-host"

# Attacks the installer's egress proxy, processes and directories, before, during and after a download.
ATTACK = """
import glob, os, socket
found = []
for family, host in ((socket.AF_INET, '127.0.0.1'), (socket.AF_INET6, '::1')):
    for port in [3128, 80, 443, 8080, PORT]:
        try:
            with socket.socket(family) as tried:
                tried.settimeout(2)
                tried.connect((host, port))
            found.append((host, port))
        except OSError:
            pass
try:
    names = [line.split()[7:] for line in open('/proc/net/unix').read().splitlines()[1:]]
except OSError:
    names = []
found += [name for name in names if name]
try:
    processes = list(filter(str.isdigit, os.listdir('/proc')))
except PermissionError:
    processes = range(1, 70000)
for pid in processes:
    try:
        command = open(f'/proc/{pid}/cmdline', 'rb').read()
    except OSError:
        continue
    if b'installer' in command or b'egress' in command:
        found.append(command)
for path in ('/stage', '/cache', '/find-links', '/index-cert'):
    if os.path.lexists(path):
        found.append(path)
try:
    open('/packages/planted.py', 'w')
    found.append('/packages can be written')
except OSError:
    pass
print(found)
"""


# The server reads files of an interpreter in the workspace on the host, so code must not change any of them.
REPLACE = """
import os
done = []
def attempt(function, *arguments):
    try:
        function(*arguments)
        done.append((function.__name__, *arguments))
    except OSError:
        pass
os.mkdir('/work/forged')
for path in ('', '/bin', '/bin/python', '/pyvenv.cfg', '/..', '/../..'):
    path = os.path.normpath('/work/a/b/env' + path)
    attempt(os.rename, path, '/work/away')
    attempt(os.rename, '/work/forged', path)
    attempt(os.rmdir, path)
    attempt(os.unlink, path)
    attempt(os.truncate, path, 0)
    attempt(os.link, path, '/work/linked')
    attempt(os.symlink, '/work', path)
    attempt(open, path + '/planted', 'w')
print([what[:2] for what in done])
"""


class Packages(Case):
    @classmethod
    def setUpClass(cls):
        need_userns()
        cls.directory = tempfile.TemporaryDirectory(prefix="sp-packages-")
        cls.addClassCleanup(cls.directory.cleanup)
        os.chmod(cls.directory.name, 0o755)
        cls.wheels = cls.directory.name + "/wheels"
        projects.honest(cls.wheels)
        projects.hostile(cls.wheels)
        projects.save(cls.wheels, projects.spying("spy"))

    def serve(self, *flags, **options):
        return Server("--cache", self.directory.name + "/cache", *flags, **options)

    def offline(self, *flags, cache=None):
        return Server("--cache", cache or self.directory.name + "/cache", "--no-index", "--find-links", self.wheels, *flags)

    def assert_code_prints(self, server, code, text):
        """Runs the code with this level's paths of /work and /packages."""
        self.assert_prints(server.python(where_it_is(code, directories(server))), text)

    def workspace(self):
        place = tempfile.mkdtemp(prefix="work-", dir=self.directory.name)
        give_away(place)
        return place

    def test_a_build_reaches_nothing_and_its_planted_files_are_ignored(self):
        names = ("HOME", "PATH", "USER")
        environment = {name: os.environ[name] for name in names if name in os.environ}
        with Index(self.wheels, auth=("someone", SECRET)) as index:
            url = index.url.replace("://", f"://someone:{SECRET}@")
            with self.serve("--index-url", url, "--allow-sdist", env={**environment, "HOST_SECRET": SECRET}) as server:
                result = server.call("install_package", packages=["spy"])
                self.assertFalse(result.is_error, result.text)
                self.assertIn("spy 1.0, plain 2.0", result.text)
                log = re.search(r"pip log: (/\S+\.txt)", result.text)[1]
                text = server.python(f"print(open({log!r}).read())").output
                self.assertNotIn(SECRET, text)
                seen = json.loads(re.search(r"SEEN (\{.*\})", text)[1])
                self.assertEqual(seen["network"], [])
                self.assertEqual({pattern: found for pattern, found in seen["files"].items() if found}, {})
                self.assertNotIn("HOST_SECRET", seen["environment"])
                self.assertTrue(seen["planted"], "the control: a build can write to its own stage")
                self.assertEqual({path for path in seen["planted"] if not path.startswith(seen["stage"] + "/")}, set())
                self.assert_code_prints(server, "import os, plain; print(plain.VERSION, os.listdir('/packages'))",
                                        "2.0 ['1']")

    def test_hostile_wheels_change_nothing(self):
        with self.serve("--no-index", "--find-links", self.wheels) as server:
            for name in ("traversal", "symlink", "nul", "two-infos"):
                with self.subTest(name):
                    result = server.call("install_package", packages=[f"hostile-{name}"])
                    self.assertTrue(result.is_error, result.text)
                    self.assert_code_prints(server, "import os; print(os.listdir('/packages'))", "[]")
            result = server.call("install_package", packages=["hostile-setuid", "hostile-pth", "hostile-site", "keyring"])
            self.assertFalse(result.is_error, result.text)
            self.assert_code_prints(
                server,
                "import os, stat, subprocess as s, sys\n"
                "modes = {os.stat(os.path.join(top, name)).st_mode & 0o7022\n"
                "         for top, _, names in os.walk('/packages/1') for name in names}\n"
                "done = s.run([sys.executable, '-c', 'import hostile_pth'])\n"
                "print(modes, done.returncode, os.environ.get('PTH'))", "{0} 0 None")
            # The installer imports nothing from a layer.
            result = server.call("install_package", packages=["plain"])
            self.assertFalse(result.is_error, result.text)
        self.assertFalse(os.path.lexists("/tmp/hostile-was-here"))

    def test_no_package_shadows_the_standard_library(self):
        with self.offline() as server:
            result = server.call("install_package", packages=["hostile-names"])
            self.assertFalse(result.is_error, result.text)
            self.assertIn("the standard library takes precedence over _socket, collections, encodings, json, os", result.text)
            self.assertIn("import as: hostile_names\n", result.text)
            for words in ("[sys.executable, '-c', 'import hostile_names as h; h.main()']",
                          "[sys.executable, '-m', 'hostile_names']", "['hostile-names']"):
                with self.subTest(words):
                    self.assert_prints(server.python(
                        f"import subprocess, sys\ndone = subprocess.run({words}, capture_output=True, text=True)\n"
                        "print(done.stdout + done.stderr, end='')"), "as wanted")
            # The installer too starts with these packages present.
            result = server.call("install_package", packages=["plain"])
            self.assertFalse(result.is_error, result.text)

    def image_as_read(self, python, name):
        """The result of read_file for a large image when a package contains a PIL."""
        with self.offline("--python", python) as server:
            result = server.call("install_package", packages=["hostile-pil"])
            self.assertFalse(result.is_error, result.text)
            server.write(name, base64.b64encode(png(3000, 500)).decode(), encoding="base64")
            return server.read(name)

    def test_no_package_replaces_the_interpreters_own_pillow(self):
        if subprocess.run([PYTHON, "-c", "import PIL"], capture_output=True).returncode:
            self.skipTest("pillow: not installed for this interpreter")
        self.assertIn("shown as 1568x261", self.image_as_read(PYTHON, "wide.png").text)

    def test_a_packages_statement_about_an_image_is_checked(self):
        venv.create(self.directory.name + "/bare", symlinks=True)
        python = self.directory.name + "/bare/bin/python"
        result = self.image_as_read(python, "huge.png")
        self.assertEqual([block["type"] for block in result.content], ["text"], result.text)
        self.assertIn("could not be scaled down", result.text)
        # The control: the package's PIL is used, as the interpreter has none.
        self.assertIn("shown as 77x33", self.image_as_read(python, "wide.png").text)

    def test_code_never_reaches_an_installation(self):
        with Index(self.wheels) as index, self.serve("--index-url", index.url) as server:
            attack = ATTACK.replace("PORT", str(index.port))
            self.assert_code_prints(server, attack, "[]")
            asked = threading.Event()
            go_on = threading.Event()

            def wait(request):
                asked.set()
                go_on.wait(60)
                request.honest()

            index.rules["/simple/plain/"] = wait
            call = server.start_call("install_package", packages=["plain"])
            self.assertTrue(asked.wait(60))
            time.sleep(2.2)  # a call that comes earlier would wait for the installation
            try:
                self.assert_code_prints(server, attack, "[]")
            finally:
                go_on.set()
            result = server.finish_call(call)
            self.assertFalse(result.is_error, result.text)
            self.assert_code_prints(server, attack, "[]")

    def test_code_cannot_replace_an_interpreter_in_the_workspace(self):
        place = self.workspace()
        venv.create(place + "/a/b/env", symlinks=True)
        for top, _, _ in os.walk(place):
            give_away(top)
        with self.offline("--workspace", place, "--python", place + "/a/b/env/bin/python") as server:
            if CONTAINER:
                self.assertIn("where code can change it", server.python(REPLACE).text)
                return
            # The control: code can change the workspace's own directories on the path.
            self.assert_prints(server.python(REPLACE),
                               "[('open', '/work/a/b/planted'), ('open', '/work/a/planted')]")
            self.assert_prints(server.python("import sys; print(sys.prefix)"), place + "/a/b/env")

    def test_a_store_that_code_can_write_is_refused(self):
        place = self.workspace()
        os.mkdir(place + "/mine")
        with self.offline("--workspace", place, cache=place + "/mine/cache") as server:
            result = server.call("install_package", packages=["plain"])
            self.assertTrue(result.is_error, result.text)
            self.assertIn("the cache directory", result.text)
            self.assertNotIn("No such file", result.text)
            self.assert_code_prints(server, "import os; print(os.listdir('/work/mine'))", "[]")

    def test_no_file_of_the_users_is_read_through_the_workspace(self):
        place = self.workspace()
        pathlib.Path(place, "constraint").write_text("plain<2\n")
        with self.offline("--workspace", place, "--constraint", place + "/constraint") as server:
            result = server.call("install_package", packages=["plain"])
            self.assertTrue(result.is_error, result.text)
            self.assertIn("where code can change it", result.text)

    def test_an_index_cannot_send_the_installer_elsewhere(self):
        def redirect(url):
            return lambda request: request.answer(302, b"", {"Location": url})

        with Index(self.wheels) as inner, Index(self.wheels) as index, self.serve("--index-url", index.url) as server:
            for place in (inner.host, "169.254.169.254", f"[::ffff:127.0.0.1]:{inner.port}"):
                with self.subTest(place):
                    index.rules["/simple/plain/"] = redirect(f"http://{place}/simple/plain/")
                    self.assertTrue(server.call("install_package", packages=["plain"]).is_error)
                    del index.rules["/simple/plain/"]
                    # The page is honest, its file is elsewhere.
                    index.files_at = f"http://{place}/files/"
                    self.assertTrue(server.call("install_package", packages=["plain"]).is_error)
                    index.files_at = None
            self.assertEqual(inner.requests, [])
            # The control: the package itself is good.
            result = server.call("install_package", packages=["plain"])
            self.assertFalse(result.is_error, result.text)
