"""Layers of installed packages in a session."""
import os
import re
import tempfile

from base import GuestCase, each_python
from fake_server import DRIVER, pack


class Packages(GuestCase):
    options = "install"

    def setUp(self):
        super().setUp()
        self.directory = tempfile.TemporaryDirectory()
        self.addCleanup(self.directory.cleanup)
        self.layers = []

    def layer(self, **files):
        """Creates a layer with modules of these names; __ in a name is a directory. Returns the server's message."""
        path = "%s/%d" % (self.directory.name, len(self.layers) + 1)
        for name, text in files.items():
            file = "%s/%s" % (path, name.replace("__", "/") + ("" if "." in name else ".py"))
            os.makedirs(os.path.dirname(file), exist_ok=True)
            with open(file, "w") as out:
                out.write(text)
        self.layers.insert(0, path)
        return ":".join(self.layers)

    def test_a_layer_can_be_imported_at_once_and_stays(self):
        self.assertEqual(self.session.run("import sp_one").status, "error")
        packages = self.layer(sp_one="x = 1")
        self.assertEqual(self.value("import sp_one; sp_one.x", packages=packages), "1")
        self.assertEqual(self.value("import importlib; importlib.reload(sp_one).x", packages=packages), "1")

    def test_a_newer_layer_comes_first(self):
        old = self.layer(sp_two="x = 1")
        self.assertEqual(self.value("1", packages=old), "1")
        new = self.layer(sp_two="x = 2")
        self.assertEqual(self.value("import sp_two; sp_two.x", packages=new), "2")

    def test_layers_come_after_the_standard_library_and_before_own_packages(self):
        packages = self.layer(json="x = 1", sp_three="x = 3")
        places = ("import sys; at = [sys.path.index(%r)]\n"
                  "lib = next(i for i, p in enumerate(sys.path) if p.endswith('lib-dynload'))\n"
                  "own = [i for i, p in enumerate(sys.path) if p.endswith(('site-packages', 'dist-packages'))]\n"
                  "lib < at[0], all(at[0] < i for i in own)") % packages
        self.assertEqual(self.value(places, packages=packages), "(True, True)")
        self.assertEqual(self.value("import json; hasattr(json, 'loads')", packages=packages), "True")

    def test_child_processes_find_them_and_their_programs(self):
        packages = self.layer(sp_four="x = 4", **{"bin__sp.tool": "#!/bin/sh\necho tool\n"})
        os.chmod(packages + "/bin/sp.tool", 0o755)
        code = ("import subprocess, sys\n"
                "[subprocess.run(c, capture_output=True, text=True).stdout for c in "
                "([sys.executable, '-c', 'import sp_four; print(sp_four.x)'], ['sp.tool'])]")
        self.run_ok("import os; os.environ['PYTHONPATH'] = '/mine'")
        self.assertEqual(self.value(code, packages=packages), r"['4\n', 'tool\n']")
        self.assertEqual(self.value("os.environ['PYTHONPATH']", packages=packages),
                         repr("%s/children:/mine" % DRIVER.parent))

    def test_no_name_shadows_the_standard_library(self):
        """Checks all kinds of child processes; the control: they find modules that only the package has."""
        mark = self.directory.name + "/ran"
        text = "open(%r, 'a').write(__name__ + ' ')\n" % mark
        names = ("os", "site", "_socket", "_json", "re", "sitecustomize", "io", "abc", "codecs", "stat")
        packages = self.layer(**{name: text for name in names})
        for package in ("encodings", "collections", "json", "importlib"):
            os.mkdir("%s/%s" % (packages, package))
            with open("%s/%s/__init__.py" % (packages, package), "w") as file:
                file.write(text)
        with open(packages + "/sp_only.py", "w") as file:
            file.write("import os, site, encodings, collections, json, _socket, re, importlib\nprint('found')\n")
        self.run_ok("1", packages=packages)
        script = self.directory.name + "/script.py"
        with open(script, "w") as file:
            file.write("import sp_only")
        for words in (["-c", "import sp_only"], ["-m", "sp_only"], [script], ["-B", "-X", "utf8", "-c", "import sp_only"]):
            code = "import subprocess, sys\nsubprocess.run([sys.executable] + %r, capture_output=True, text=True)" % words
            with self.subTest(words):
                reply = self.run_ok(code + ".stdout", packages=packages)
                self.assertEqual(reply.value, r"'found\n'")
        with self.subTest("no site"):
            self.value("subprocess.run([sys.executable, '-S', '-c', 'import json, re, os']).returncode", packages=packages)
        with self.subTest("virtual environment"):
            code = ("import venv\nvenv.create('env', symlinks=True)\n"
                    "subprocess.run(['env/bin/python', '-c', 'import sp_only'], capture_output=True, text=True).stdout")
            self.assertEqual(self.value(code, packages=packages), r"'found\n'")
        with self.subTest("spawned"):
            code = ("import multiprocessing as m, sys\ndef f(): import sp_only\n"
                    "child = m.get_context('spawn').Process(target=f); child.start(); child.join(); child.exitcode")
            self.assertEqual(self.value(code, packages=packages), "0")
        open(mark, "a").close()
        with open(mark) as file:
            self.assertEqual(file.read(), "")

    def test_a_sitecustomize_of_the_users_runs_once_in_a_child(self):
        own = self.directory.name + "/own"
        os.mkdir(own)
        with open(own + "/sitecustomize.py", "w") as file:
            file.write("import sys\nprint('own', __name__, sys.modules[__name__].__file__ == __file__)\n")
        packages = self.layer(sp_ten="print('package')")
        code = ("import os, subprocess, sys; os.environ['PYTHONPATH'] += ':' + %r\n"
                "subprocess.run([sys.executable, '-c', 'import sp_ten'], capture_output=True, text=True).stdout") % own
        self.assertEqual(self.value(code, packages=packages), r"'own sitecustomize True\npackage\n'")

    def test_a_module_that_was_imported_before_is_reported(self):
        old = self.layer(sp_five="x = 1")
        reply = self.run_ok("import sp_five; import json", packages=old)
        self.assertEqual(reply.all("note"), [])
        new = self.layer(sp_five="x = 2", json="", **{"sp_five-2.0.dist-info__METADATA.txt": ""})
        notes = self.run_ok("1", packages=new).all("note")
        self.assertTrue(any("`sp_five` was imported before sp_five 2.0 was installed" in n and "reset=true" in n
                            for n in notes), notes)
        self.assertEqual(self.run_ok("1", packages=new).all("note"), [])

    def test_pth_files_run_nothing(self):
        mark = self.directory.name + "/ran"
        packages = self.layer(sp_six="", **{"evil.pth": "import os; open(%r, 'w')\n/tmp\n" % mark})
        self.run_ok("import sp_six", packages=packages)
        self.assertFalse(os.path.exists(mark))

    def test_an_empty_cell_keeps_the_packages(self):
        packages = self.layer(sp_seven="x = 7")
        for _ in range(3):
            self.assertEqual(self.value("import sys; %r in sys.path" % packages, packages=packages), "True")

    def test_a_broken_sys_path_does_not_affect_the_result(self):
        packages = self.layer(sp_eight="x = 8")
        self.run_ok("import sys; kept, sys.path = sys.path, None")
        self.assertIn("installed packages", self.run_ok("1", packages=packages).note)
        self.assertEqual(self.run_ok("sys.path = kept; 1", packages=packages).value, "1")

    def test_missing_imports_are_reported_before_the_code_runs(self):
        code = "ran = 1\nimport os, sp_none.sub as s\nfrom fitz import x\nimport win32com"
        self.assertEqual(self.session.lacks(code), ["PyMuPDF", "pywin32", "sp_none"])
        self.assertIn("NameError", self.session.run("ran").traceback)

    def test_a_name_that_a_module_only_begins_with_is_a_guess(self):
        code = "from google.colab import drive\nfrom google.cloud import storage\nimport google.protobuf.json_format, azure.quantum, utils, smart_open"
        self.assertEqual(self.session.lacks(code), ["google-cloud-storage", "protobuf", "smart-open", "google", "azure", "utils"])
        self.session.sock.sendall(pack("imports", "cell", self.session.cell + 1, "code", code))
        self.assertEqual(self.session.receive().all("name"), ["google-cloud-storage", "protobuf", "smart-open"])

    def test_files_are_no_packages(self):
        for line in ("!pip install requirements.txt", "%pip install -q requirements.txt", "!pip3 install requirements.txt",
                     "!python3 -m pip install requirements.txt"):
            self.assertEqual(self.session.lacks(line), [], line)
            reply = self.run_ok(line)
            self.assertNotIn('"requirements.txt"', reply.out + reply.err, line)
            self.assertIn("exited with status", reply.note, line)
        for code in ("pip install sp_one requirements.txt", "pip install -r requirements.txt sp_one"):
            self.assertIn('packages=["sp_one", the lines of requirements.txt]', self.session.run(code).hint, code)
        self.assertIsNone(self.session.run("raise ImportError('try pip install -r requirements.txt')").hint)
        for word in ("Requirements.TXT", "requirements.txt[a]", "requirements.txt==1.0", "Pipfile", "package.json"):
            file = re.match(r"[\w.]+", word)[0]
            for line in ("!pip install '%s'", "%%pip install '%s'", "!python3 -m pip download '%s'", "pip install '%s'"):
                reply = self.session.run(line % word)
                said = "%s%s%s" % (reply.out, reply.err, reply.hint)
                self.assertNotRegex(said, r"\[\"%s" % re.escape(file), line % word)
                self.assertIn("the lines of %s]" % file, said, line % word)
        self.assertIn("discord.py[voice]", self.session.run("!pip install 'discord.py[voice]'").err)

    def test_an_address_is_no_file(self):
        """With a proxy pip is left to do what it can; the file's name is refused there too."""
        for word, refused in (("git+https://127.0.0.1:9/a/discord.py", False), ("Requirements.Txt==1", True), ("requirements.txt;python_version>'3'", True)):
            reply = self.run_ok("import os; os.environ['https_proxy'] = 'http://127.0.0.1:9'\nimport subprocess, sys\n"
                                "subprocess.run([sys.executable, '-m', 'pip', 'install', '--retries', '0', %r], capture_output=True, text=True).stderr" % word)
            self.assertEqual("is a file, not a package" in reply.value, refused, reply.value)

    def test_imports_that_the_code_expects_to_fail_are_not_reported(self):
        code = "try:\n    import sp_none\nexcept ImportError:\n    import sp_other\nelse:\n    import sp_third\n"
        self.assertEqual(self.session.lacks(code), ["sp_other", "sp_third"])
        for clause in ("except (ValueError, ModuleNotFoundError)", "except", "except Exception as e"):
            self.assertEqual(self.session.lacks("try:\n    import sp_none\n%s:\n    pass" % clause), [], clause)
        self.assertEqual(self.session.lacks("try:\n    import sp_none\nexcept KeyError:\n    pass"), ["sp_none"])

    def test_installed_modules_are_not_reported_missing(self):
        packages = self.layer(sp_nine="x = 9")
        self.assertEqual(self.session.lacks("import sp_nine, json, sys\nfrom . import y if 0 else None", packages=packages), [])
        self.assertEqual(self.session.lacks("import sp_nine; sp_nine.x", packages=packages), [])
        self.assertEqual(self.value("import sp_nine; sp_nine.x", packages=packages), "9")
        self.assertEqual(self.session.lacks("def f():\n    import sp_inner\n"), ["sp_inner"])

    def test_pip_lines_name_the_tool_call_instead(self):
        reply = self.run_ok("%pip install -q sp-absent 'numpy==1.26'  # now")
        self.assertIn('the tool install_package, not with code: packages=["sp-absent", "numpy==1.26"]', reply.err)
        self.assertIn("exited with status 1", reply.note)

    def test_lines_of_pip_are_reported_missing(self):
        """With --auto-install the server has installed them when the cell begins."""
        packages = self.layer(**{"sp_ten": "x = 10", "sp_ten-1.0.dist-info/METADATA": ""})
        code = "!pip install -q sp-ten 'sp_eleven>=2' sp-twelve && echo done\n%pip install sp-thirteen -r more.txt\nimport sp_fourteen"
        self.assertEqual(self.session.lacks(code, packages=packages), ["sp_eleven>=2", "sp-twelve", "sp-thirteen", "sp_fourteen"])
        packages = self.layer(**{"sp_eleven-2.1.dist-info/METADATA": "", "sp_twelve-1.dist-info/METADATA": ""})
        reply = self.run_ok("%pip install -U sp-twelve\n!python3 -m pip install 'sp_eleven>=2'", packages=packages)
        self.assertEqual((reply.out, reply.err, reply.note), ("installed: sp-twelve\ninstalled: sp_eleven>=2\n", "", None))
        for line in ("%pip install -r more.txt", "name = 'sp-refused'\n%pip install {name}", "!pip install sp-twelve && echo done"):
            self.assertIn("install_package", self.run_ok(line).err)

    def test_distributions_and_their_modules(self):
        packages = self.layer(**{"sp_other": "x = 1", "sp_tool-1.0.dist-info/RECORD": "sp_other.py,,\nsp_tool-1.0.dist-info/RECORD,,\n../bin/x,,\n"
                                 "sp_more/__init__.py,,\n"})
        self.assertEqual(self.session.run("import sp_tool", packages=packages).hint, "sp_tool is installed, and its modules are: sp_other, sp_more")
        self.assertEqual(self.session.lacks("import sp_tool", packages=packages), [])
        for code, part in (("raise ModuleNotFoundError('x', name='beautifulsoup4')", "the module of beautifulsoup4 is `bs4`"),
                           ("raise ImportError(\"Missing optional dependency 'pytables'.\")", '["tables"]'),
                           ("raise ImportError('pip install sp-unknown')", "only if you know that package")):
            self.assertIn(part, self.session.run(code).hint, code)

    def test_lines_of_pip_for_what_is_installed(self):
        packages = self.layer(**{"sp_ten": "x = 10", "Sp_Ten-1.0.dist-info/METADATA": ""})
        self.assertEqual(self.run_ok("%pip install -q sp.ten\n_exit_code", packages=packages).value, "0")
        self.run_ok("import subprocess, sys\ndef pip(*words): return subprocess.run([sys.executable, '-m', 'pip', 'install', *words], "
                    "capture_output=True, text=True)")
        with open(self.layers[0] + "/Sp_Ten-1.0.dist-info/METADATA", "w") as file:
            file.write("Metadata-Version: 2.1\nName: Sp_Ten\nVersion: 1.0\n")
        for words in ("'sp-ten'", "'-q', 'sp_ten>=0.5', 'sp.ten<2'", "'-r', 'needs.txt'"):
            reply = self.run_ok("open('needs.txt', 'w').write('# all\\nsp-ten>=1  # one\\n')\ndone = pip(%s)\ndone.returncode, done.stdout[:34]" % words, packages=packages)
            self.assertEqual(reply.value, "(0, 'Requirement already satisfied: sp-')".replace("sp-", "sp_" if "_" in words else "sp-"), words)
        for words in ("'sp-ten==2'", "'-U', 'sp-ten'", "'sp-ten', 'sp-absent'", "'sp-ten[more]'"):
            self.assertIn("install_package", self.run_ok("done = pip(%s)\nprint(done.returncode, done.stderr)" % words, packages=packages).out, words)
        for code in ("import pip\npip.main(['install', %r])", "from pip._internal import main\nmain(['install', %r])",
                     "import runpy, sys\nsys.argv = ['pip', 'install', %r]\ntry: runpy.run_module('pip', run_name='__main__')\nexcept SystemExit as end: print(end.code)"):
            self.assertIn("install_package", self.run_ok(code % "sp-absent", packages=packages).err, code)
            self.assertIn("satisfied", self.run_ok(code % "sp-ten", packages=packages).out, code)
        self.assertIn("satisfied", self.run_ok("%pip install 'sp-ten>=1'", packages=packages).out)
        self.assertIn("install_package", self.run_ok("%pip install sp-ten==2", packages=packages).err)


each_python(globals())
