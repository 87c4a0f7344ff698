"""guest/installer against the index of the tests, without a sandbox.

SANDPIPER_TEST_PIPS is a colon-separated list of directories, each with a pip that is tried besides the interpreter's.
"""
import os
import pathlib
import socket
import subprocess
import sys
import tempfile
import unittest

import installer_box
import fake_server
from index import projects
from index.server import Index, cut, status
from index.wheels import Sdist, Wheel, backend

PIPS = [path for path in os.environ.get("SANDPIPER_TEST_PIPS", "").split(":") if path]


def setUpModule():
    global shared, program, directory
    shared = tempfile.TemporaryDirectory()
    unittest.addModuleCleanup(shared.cleanup)
    program = installer_box.scripts(shared.name)
    directory = pathlib.Path(shared.name) / "index"
    projects.everything(directory)


class Installers(unittest.TestCase):
    python, pip = None, None
    forking = False  # whether an interpreter that has imported pip serves all cases

    @classmethod
    def setUpClass(cls):
        if cls.python is None:
            raise unittest.SkipTest("base class")
        if cls.pip:
            cls.python = installer_box.python_with(cls.python, tempfile.mkdtemp(dir=shared.name), [cls.pip])
        cls.index = Index(directory)
        cls.addClassCleanup(cls.index.close)
        cls.interpreter = installer_box.Forking(cls.python, program) if cls.forking else None
        if cls.forking:
            cls.addClassCleanup(cls.interpreter.close)

    def setUp(self):
        self.box = self.fresh()
        self.index.rules.clear()
        self.index.lies.clear()
        self.index.yanked.clear()

    def fresh(self, index=None):
        box = installer_box.Box(self.python, program, index or self.index, self.interpreter)
        self.addCleanup(box.close)
        return box

    def fetched(self, *packages, **request):
        reply = self.box.fetch(*packages, **request)
        self.assertTrue(reply["ok"], (reply, self.box.log))
        return reply

    def installed(self, *packages, **request):
        reply = self.box.install(*packages, **request)
        self.assertTrue(reply["ok"], (reply, self.box.log))
        return reply

    def refused(self, kind, *packages, says="", **request):
        reply = self.box.fetch(*packages, **request)
        self.assertFalse(reply["ok"], reply)
        self.assertEqual(reply["class"], kind, (reply, self.box.log))
        self.assertIn(says, reply["message"])
        return reply


class Fetch(Installers):
    forking = True

    def test_a_package_is_fetched_with_its_dependencies(self):
        reply = self.fetched("parent[more] >= 1", "marked")
        rows = {row["name"]: row for row in reply["to_install"]}
        self.assertEqual({name: (row["version"], row["requested"]) for name, row in rows.items()},
                         {"parent": ("1.2", True), "marked": ("1.0", True), "plain": ("2.0", False),
                          "shared": ("2.5", False)})
        self.assertEqual({path.name for path in (self.box.stage / "wheels").iterdir()},
                         {row["file"] for row in rows.values()})
        self.assertIn("looking up parent", self.box.progress)
        self.assertTrue(any(line.startswith("downloading parent-1.2") for line in self.box.progress))
        self.assertEqual(self.index.count("/simple/pip"), 0, "pip looks for a newer self")

    def test_a_second_fetch_comes_from_the_cache(self):
        for self.index.lasting, name in (True, "plain"), (False, "shared"):
            with self.subTest(lasting=self.index.lasting):
                self.fetched(name)
                for wheel in (self.box.stage / "wheels").iterdir():
                    wheel.unlink()
                self.box.progress.clear()
                self.index.requests.clear()
                self.fetched(name)
                self.assertEqual([path for _, path, _ in self.index.requests if path.endswith(".whl")], [])
                self.assertEqual([line for line in self.box.progress if line.startswith("downloading")], [])
                self.assertTrue(list((self.box.stage / "wheels").glob(f"{name}-*.whl")))

    def test_markers_that_do_not_apply_are_ignored(self):
        reply = self.fetched("plain; python_version < '3'", "shared")
        self.assertEqual([row["name"] for row in reply["to_install"]], ["shared"])
        self.assertEqual(len(reply["skipped"]), 1)
        self.assertEqual(self.fetched("plain; python_version < '3'")["to_install"], [])

    def test_unknown_names_and_versions_are_reported(self):
        reply = self.refused("not_found", "requets", says="no package requets")
        self.assertEqual(reply["near"], ["requests"])
        self.assertEqual(self.refused("not_found", "cv2")["near"][0], "opencv-python")
        reply = self.refused("not_found", "plain==9", says="no version of plain matches ==9")
        self.assertNotIn("available", reply["message"])
        self.assertEqual(reply["available"], ["2.1rc1", "2.0", "1.1", "1.0"])
        reply = self.refused("not_found", "lost-child")
        self.assertEqual(reply["message"], "the index has no package no-such-package, which lost-child 1.0 needs")

    def test_a_missing_compatible_wheel_is_reported(self):
        self.refused("no_wheel", "elsewhere", says="win_amd64")
        self.refused("no_wheel", "of-the-future", says="needs Python >=3.99")
        self.refused("no_wheel", "needs-source", says="--allow-sdist")
        Sdist("magic", backend="").save(directory)
        self.assertEqual(self.refused("no_wheel", "magic")["near"], ["python-magic"])
        self.assertEqual(self.index.count("/files/from_source"), 0)

    def test_conflicts_are_reported(self):
        self.refused("conflict", "wants-old", "wants-new", says="wants-old 1.0 needs shared<2")
        self.refused("conflict", "plain==1.0", "plain==2.0", says="requirements: you request plain==1.0 and plain==2.0")
        self.box.root.joinpath("constraint").write_text("plain<2\n")
        self.refused("conflict", "plain==2.0", constraint=True, says="constraint")
        self.assertEqual(self.fetched("plain", constraint=True)["to_install"][0]["version"], "1.1")

    def test_files_that_differ_from_their_hash_are_refused(self):
        self.index.lies.add("plain-2.0-py3-none-any.whl")
        self.index.metadata = False
        self.addCleanup(setattr, self.index, "metadata", True)
        self.refused("bad_hash", "plain", says="does not match the hash")
        self.index.lies.clear()
        self.fetched("plain")
        self.index.rules["/files/shared*"] = cut(100)
        self.assertIn(self.box.fetch("shared").get("class"), ("unreachable", "bad_hash"))

    def test_a_damaged_file_in_the_cache_is_fetched_again(self):
        self.fetched("plain")
        wheel = self.box.stage / "wheels" / "plain-2.0-py3-none-any.whl"
        data = wheel.read_bytes()
        cached = [path for path in self.box.root.glob("cache/http*/**/*")
                  if path.is_file() and data[:60] in path.read_bytes()]
        self.assertEqual(len(cached), 1)
        cached[0].write_bytes(cached[0].read_bytes().replace(data[:60], bytes(60)))
        self.fetched("plain")
        self.assertEqual(wheel.read_bytes(), data)

    def test_an_unreachable_index_is_reported(self):
        with socket.create_server(("127.0.0.1", 0)) as listening:
            port = listening.getsockname()[1]
        self.refused("unreachable", "plain", index_url=f"http://127.0.0.1:{port}/simple/", says="127.0.0.1")
        self.index.rules["/simple/plain/"] = status(410)
        self.refused("unreachable", "plain", says="status 410")
        self.index.rules.clear()
        self.index.rules["/files/plain*"] = status(403)
        self.refused("auth", "plain", says="403")

    def test_a_refusal_by_the_proxy_is_reported(self):
        class Refusing(Index):
            def rule(self, path):
                return status(403, {"Proxy-Status": "sandpiper; error=http_request_denied"})

        with Refusing(directory) as proxy:
            self.refused_by(proxy, "http://index.test/simple/")

    def refused_by(self, proxy, url):
        environment = {"http_proxy": f"http://{proxy.host}"}
        reply = self.box.fetch("plain", index_url=url, environment=environment)
        self.assertEqual(reply.get("class"), "blocked", (reply, self.box.log))

    def test_sizes_beyond_the_limit_are_refused(self):
        self.refused("disk", "plain", max_bytes=500, says="--package-disk")

    def test_directories_of_wheels(self):
        wheels = self.box.root / "find-links"
        wheels.mkdir()
        Wheel("offline", requires=["plain"]).save(wheels)
        before = self.index.count()
        self.refused("not_found", "offline", no_index=True, find_links=True, says="plain, which offline 1.0 needs")
        self.refused("not_found", "other", no_index=True, find_links=True, says="the directory of wheels has no package other; "
                     "the directory has offline")
        reply = self.refused("not_found", "ofline", no_index=True, find_links=True)
        self.assertEqual(reply["near"], ["offline"])
        reply = self.refused("not_found", "panda", no_index=True, find_links=True)
        self.assertEqual(reply["near"], [], "what no directory has cannot be installed")
        Wheel("plain", "7.0").save(wheels)
        reply = self.fetched("offline", no_index=True, find_links=True)
        self.assertEqual(sorted(row["version"] for row in reply["to_install"]), ["1.0", "7.0"])
        self.assertEqual(self.index.count(), before)
        self.assertEqual(len(list(wheels.iterdir())), 2, "files of the user's were moved")
        self.refused("not_found", "ofline", find_links=True, says="neither the index nor the directory of wheels has")

    def test_the_standard_library_is_not_looked_up(self):
        if subprocess.run([self.box.python, "-c", "import sys; sys.stdlib_module_names"], stderr=subprocess.DEVNULL).returncode:
            self.skipTest("python: the list of names came with 3.10")
        before = self.index.count()
        reply = self.fetched("csv", "Statistics>1")
        self.assertEqual((reply["to_install"], self.index.count()), ([], before))
        self.assertIn("csv belongs to Python's standard library", reply["notes"][0])
        reply = self.fetched("csv", "plain==1.1")
        self.assertEqual([row["name"] for row in reply["to_install"]], ["plain"])
        self.assertEqual(len(reply["notes"]), 1)

    def test_malformed_requirements_are_refused(self):
        for text in ("--index-url=http://evil.test", "./plain", "plain @ file:///etc/passwd"):
            with self.subTest(text):
                self.assertIn(self.box.fetch(text)["class"], ("other", "blocked"))

    def test_dependencies_with_a_url_are_refused(self):
        for number, address in enumerate((f"http://{self.index.host}/files/from_source-1.0.tar.gz",
                                          f"http://{self.index.host}/files/plain-2.0-py3-none-any.whl",
                                          "git+http://127.0.0.1:9/x.git", "file:///etc/")):
            with self.subTest(address):
                Wheel(f"by-address-{number}", requires=[f"plain @ {address}"]).save(directory)
                self.refused("blocked", f"by-address-{number}", says="instead of the index")

    def test_withdrawn_versions_are_reported(self):
        self.index.yanked["plain-2.0-py3-none-any.whl"] = "wrong sums"
        self.assertEqual(self.fetched("plain")["to_install"][0]["version"], "1.1")
        self.assertIn("wrong sums", self.fetched("plain==2.0")["notes"][0])


class Trust(Installers):
    def test_certificates(self):
        with Index(directory, tls=True) as index:
            self.refused("unreachable", "plain", index_url=index.url, says="certificate")
            self.box.root.joinpath("certificate").write_bytes(pathlib.Path(index.certificate).read_bytes())
            self.fetched("plain", index_url=index.url, cert=True)

    def test_credentials_are_used_and_never_reported(self):
        with Index(directory, auth=("someone", "s3cr3t-word")) as index:
            self.refused("auth", "plain", index_url=index.url)
            self.fetched("plain", index_url=index.url,
                         credentials=[{"url": index.url, "login": "someone", "password": "s3cr3t-word"}])
            written = [path for path in self.box.root.rglob("*") if path.is_file()]
            self.assertTrue(written)
            for word in ("s3cr3t-word", index.expected.split()[1]):
                self.assertNotIn(word, self.box.log)
                self.assertFalse([path for path in written if word.encode() in path.read_bytes()])

    def test_credentials_are_for_one_port_of_a_host(self):
        with Index(directory, auth=("someone", "s3cr3t-word")) as index, Index(directory) as other:
            self.fetched("plain", index_url=index.url, extra_index_urls=[other.url],
                         credentials=[{"url": index.url, "login": "someone", "password": "s3cr3t-word"}])
            self.assertEqual({sent for _, _, sent in other.requests}, {""})

    def test_the_installer_imports_nothing_of_a_layer(self):
        names = ("keyring", "truststore", "socks", "brotli", "simplejson")
        done = self.installed(*names)
        planted = [row["name"] for row in done["installed"]]
        self.assertIn("keyring", planted)
        for name in planted:
            self.assertTrue((self.box.layer / f"{name}.py").is_file())
        with Index(directory, tls=True, auth=("someone", "word")) as index:
            self.box.root.joinpath("certificate").write_bytes(pathlib.Path(index.certificate).read_bytes())
            self.refused("auth", "plain", index_url=index.url, cert=True)
            credentials = [{"url": index.url, "login": "someone", "password": "word"}]
            self.fetched("plain", index_url=index.url, cert=True, credentials=credentials)
        self.assertNotIn("hijacked", self.box.log)
        self.assertEqual(self.fetched("keyring")["already"], [{"name": "keyring", "version": "1.0"}])

    def test_variables_and_files_of_pip_are_ignored(self):
        (self.box.stage / "home").mkdir()
        (self.box.stage / "home" / ".netrc").write_text(f"machine {self.index.host} login a password b\n")
        self.fetched("plain", environment={"PIP_INDEX_URL": "http://127.0.0.1:9/", "PIP_NO_INDEX": "1",
                                           "PIP_REQUIRE_HASHES": "1", "HOME": str(self.box.stage / "home")})
        self.assertEqual({sent for _, path, sent in self.index.requests}, {""})


class Layers(Installers):
    forking = True

    def test_installed_packages_are_not_installed_again(self):
        self.installed("plain==1.1", "shared")
        reply = self.fetched("plain", "shared>=2")
        self.assertEqual(reply["to_install"], [])
        self.assertEqual({row["name"]: row["version"] for row in reply["already"]}, {"plain": "1.1", "shared": "2.5"})
        reply = self.fetched("parent")
        self.assertEqual([row["name"] for row in reply["to_install"]], ["parent"])

    def test_pip_is_not_asked_for_what_is_there(self):
        self.installed("plain==1.1", "shared")
        self.assertEqual(self.fetched("Plain", "shared")["already"], [{"name": "plain", "version": "1.1"}, {"name": "shared", "version": "2.5"}])
        self.assertNotIn("already satisfied", self.box.log)
        self.fetched("plain", "shared>=2")
        self.assertIn("already satisfied", self.box.log)

    def test_the_name_of_an_installed_module_is_understood(self):
        self.box.layers = 1
        (self.box.layer / "scikit_learn-1.0.dist-info").mkdir(parents=True)
        (self.box.layer / "scikit_learn-1.0.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: scikit-learn\nVersion: 1.0\n")
        reply = self.fetched("sklearn", "plain")
        self.assertEqual([row["name"] for row in reply["to_install"]], ["plain"])
        self.assertEqual(reply["notes"], ["sklearn is the module of scikit-learn, which is installed"])
        self.refused("not_found", "sklearn>=1")

    def test_replaced_versions_are_reported(self):
        self.installed("wants-old", "plain==1.0")
        reply = self.fetched("plain", "shared", upgrade=True)
        self.assertEqual(sorted((row["name"], row["from"], row["to"]) for row in reply["replaces"]),
                         [("plain", "1.0", "2.0"), ("shared", "1.5", "2.5")])
        self.assertTrue(any("wants-old needs shared<2" in note for note in reply["notes"]), reply)
        self.box.unpack(reply)
        self.assertEqual(self.box.layers, 2)
        self.assertEqual({row["version"] for row in self.fetched("plain", "shared")["already"]}, {"2.0", "2.5"})

    def test_installed_files_can_be_used(self):
        wanted = {"parent": ["parent"], "plain": ["plain"], "spaced-one": ["spaced.one"],
                  "spaced-two": ["spaced.two"], "with-data": ["with_data", "with_data_more"]}
        compiled = [path for path in directory.glob("compiled-*") if self.python == sys.executable]
        wanted.update({"compiled": ["compiled"]} if compiled else {})
        done = self.installed(*wanted)
        self.assertEqual({row["name"]: row["imports"] for row in done["installed"]}, wanted)
        seen = self.box.python_sees("import parent, spaced.one, with_data_more; print(parent.VERSION)")
        self.assertEqual(seen, "2.0")
        if compiled:
            self.assertEqual(self.box.python_sees("import compiled; print(compiled.answer())"), "42")
        self.assertTrue(os.access(self.box.layer / "bin" / "parent-tool", os.X_OK))
        self.assertEqual(subprocess.check_output([self.box.layer / "bin" / "with-data"], text=True), "ran\n")
        self.assertTrue((self.box.layer / "share/with-data/table.txt").is_file())
        self.assertTrue(list(self.box.layer.glob("__pycache__/plain.*.pyc")))


class Hostile(Installers):
    forking = True

    def assert_clean(self):
        self.assertFalse((self.box.stage / "new").exists())
        self.assertEqual({path.name for path in self.box.root.iterdir()}, {"stage", "cache", "packages"})
        self.assertFalse(os.path.lexists("/tmp/hostile-was-here"))

    def test_names_and_links_are_refused(self):
        names = [f"hostile-{name}" for name in ("traversal", "dots", "absolute", "backslash", "nul", "newline", "long",
                                                "symlink", "data")]
        for row in self.fetched(*names)["to_install"]:
            with self.subTest(row["name"]):
                reply = self.box.unpack({"to_install": [row]})
                self.assertEqual((reply["ok"], reply.get("class")), (False, "other"), reply)
                self.assert_clean()
        self.assertFalse(self.box.install("hostile-two-infos")["ok"])
        self.assert_clean()

    def test_files_that_run_at_start_are_left_out(self):
        done = self.installed("hostile-pth", "hostile-site")
        self.assertIn("sitecustomize.py", done["notes"][0])
        self.assertEqual({path.name for path in self.box.layer.iterdir() if not path.name.endswith(".dist-info")},
                         {"hostile_pth.py", "hostile_site.py", "__pycache__"})
        self.assertEqual(self.box.python_sees("import os; print(os.environ.get('PTH'))"), "None")

    def test_file_modes_are_set_by_us(self):
        self.installed("hostile-setuid")
        self.assertEqual({path.stat().st_mode & 0o7022 for path in self.box.layer.rglob("*")}, {0})

    def test_source_with_syntax_errors_is_installed(self):
        self.installed("hostile-source")

    def test_bombs_are_refused_before_they_are_unpacked(self):
        wheels = self.box.root / "find-links"
        projects.bomb(wheels, 64 << 20)
        projects.many(wheels, 3000)
        for name, limits in (("bomb", {"max_bytes": 32 << 20}), ("many", {"max_files": 1000})):
            reply = self.fetched(name, find_links=True, no_index=True)
            done = self.box.unpack(reply, **limits)
            self.assertEqual(done.get("class"), "disk", done)
            self.assert_unwritten()

    def assert_unwritten(self):
        self.assertFalse((self.box.stage / "new").exists())


class Sources(Installers):
    forking = True

    def test_an_archive_is_built_and_its_dependencies_are_fetched(self):
        reply = self.fetched("needs-source", only_binary=False)
        self.assertEqual([(row["name"], row["version"]) for row in reply["to_build"]], [("from-source", "1.0")])
        done = self.installed("needs-source", only_binary=False)
        self.assertEqual(sorted(row["name"] for row in done["installed"]), ["from-source", "needs-source", "plain"])

    def test_a_build_gets_the_wheels_that_it_requires(self):
        self.installed("with-tool", only_binary=False)

    def test_a_failed_build_is_reported(self):
        reply = self.box.install("unbuildable", only_binary=False)
        self.assertEqual(reply.get("class"), "build_failed", reply)
        self.assertIn("compiler: no such thing", reply["message"])

    def test_build_requirements_with_a_url_are_refused(self):
        for number, address in enumerate((f"http://{self.index.host}/files/plain-2.0-py3-none-any.whl", "file:///etc/")):
            with self.subTest(address):
                name = f"build-by-address-{number}"
                Sdist(name, needs=[f"plain @ {address}"], backend=backend(Wheel(name))).save(directory)
                self.refused("blocked", name, only_binary=False, says="instead of the index")

    def test_wheels_are_preferred_to_archives(self):
        self.assertEqual(self.fetched("both-kinds", only_binary=False)["to_install"][0]["version"], "1.0")
        self.assertEqual(self.fetched("both-kinds==2.0", only_binary=False)["to_build"][0]["version"], "2.0")

    def test_nothing_of_an_archive_runs_during_the_fetch(self):
        marker = self.box.root / "ran"
        Sdist("marking", backend=backend(Wheel("marking"), f"open({str(marker)!r}, 'w')")).save(directory)
        reply = self.fetched("marking", only_binary=False)
        self.assertFalse(marker.exists())
        self.assertTrue(self.box.run("build", to_build=reply["to_build"])["ok"])
        self.assertTrue(marker.exists())

    def test_files_planted_by_a_build_are_ignored(self):
        # A backend is imported several times but plants only once.
        plant = (f"import shutil\nstage = {str(self.box.stage)!r}\n"
                 "if not os.path.islink(stage + '/wheels'):\n"
                 "    open(stage + '/built/plain-9.0-py3-none-any.whl', 'w').write('x')\n"
                 "    os.symlink('/etc/passwd', stage + '/built/shared-9.0-py3-none-any.whl')\n"
                 "    os.makedirs(stage + '/new/planted')\n"
                 "    shutil.rmtree(stage + '/wheels')\n"
                 "    os.symlink('/etc', stage + '/wheels')\n")
        Sdist("planting", backend=backend(Wheel("planting", requires=["plain", "shared"]), plant)).save(directory)
        first = self.fetched("planting", only_binary=False)
        self.assertTrue(self.box.run("build", to_build=first["to_build"])["ok"])
        second = self.fetched("planting", only_binary=False, built=first["to_build"])
        self.assertEqual({row["name"]: row["version"] for row in second["to_install"]},
                         {"planting": "1.0", "plain": "2.0", "shared": "2.5"})
        self.assertFalse((self.box.stage / "wheels").is_symlink())
        self.assertTrue(self.box.unpack(second)["ok"])
        self.assertFalse((self.box.layer / "planted").exists())


class WithoutPip(Installers):
    def setUp(self):
        super().setUp()
        self.box.python = installer_box.python_with(self.python, tempfile.mkdtemp(dir=shared.name))

    def test_the_bundled_pip_is_used(self):
        reply = self.box.fetch("plain")
        if reply.get("class") == "no_installer":
            self.skipTest("pip: this Python bundles none")
        self.assertTrue(reply["ok"], (reply, self.box.log))


def each_installer(namespace):
    """Makes copies of the classes above: each interpreter with its own pip, and the first with each of PIPS."""
    ways = [(python, None) for python in fake_server.PYTHONS] + [(fake_server.PYTHONS[0], pip) for pip in PIPS]
    for name, case in list(namespace.items()):
        if isinstance(case, type) and issubclass(case, Installers) and case is not Installers:
            del namespace[name]
            for number, (python, pip) in enumerate(ways):
                made = type(f"{name}_{number}", (case,), {"python": python, "pip": pip, "__module__": case.__module__})
                namespace[made.__name__] = made


each_installer(globals())

if __name__ == "__main__":
    unittest.main()
