"""With --cow the user works in the directory of the workspace at the same moment as code: what is not known is a conflict.
Checked by what is in the files.
"""
import os
import shutil
import time
import unittest

from at_work import AtWork
from client import SLOW, once


class Conflicts(AtWork):
    """With --cow: a change is applied only where it is known what the user's file was when code began it."""

    def apply(self, server, **arguments):
        return server.call("apply_changes", _timeout=120, **arguments)

    def assert_kept(self, server, files):
        result = self.apply(server)
        for name, text in files.items():
            self.assertEqual((self.dir / name).read_text() if (self.dir / name).exists() else None, text, result.text)
        return result

    def test_a_process_that_was_left_behind(self):
        self.put("f.txt"), self.put("g.txt")
        late = ("import subprocess\nsubprocess.Popen(['sh', '-c', 'until [ -e /data/signals/late ]; do sleep 0.01; done; "
                "echo code >f.txt; rm g.txt; touch /data/signals/done'], start_new_session=True)")
        with self.start() as server:
            self.assert_ok(server.python(late))
            self.save("f.txt", "user"), self.save("g.txt", "user")
            (self.signals / "late").touch()
            end = time.monotonic() + 60 * SLOW
            while not (self.signals / "done").exists() and time.monotonic() < end:
                time.sleep(0.01)
            self.assert_ok(server.python("x = 1"))
            self.assert_kept(server, {"f.txt": "user", "g.txt": "user"})

    def test_what_still_runs_is_said(self):
        with self.start() as server:
            self.assert_ok(server.python("open('f', 'w').close()"))
            self.assertNotIn("of code still run", server.call("list_changes").text)
            self.assert_ok(server.python("import subprocess; p = [subprocess.Popen(['sleep', '600']) for _ in range(2)]; x = 1"))
            words = "; 2 processes of code still run, and may change more]"
            self.assertIn(words, server.call("list_changes").text)
            self.assertIn(words, server.call("list_changes", diff=True).text)
            job = server.python("import time; time.sleep(600)", session="other", wait_s=0)
            self.assertIn("job", job.text)
            while "; 3 processes" not in server.call("list_changes").text:  # a checkpoint counts until init watches it
                pass
            self.assertIn("; 3 processes", server.call("apply_changes").text)
            server.call("run_python", stop=True, wait_s=600)
            self.assert_ok(server.python("for one in p: one.kill(); one.wait()"))
            self.assertNotIn("of code still run", server.call("list_changes").text)

    @once
    def test_more_changes_than_can_be_listed(self):
        self.put("f.txt"), self.put("g.txt")
        name = "'/'.join(['d' * 250] * 14)"
        with self.start("--disk", "2G", "--memory", "2G") as server:
            result = server.python(f"import os\ntop = {name}\nos.makedirs(top)\nos.chdir(top)\n"
                                   "for i in range(11000): open('x' * 200 + str(i), 'w').close()\nos.chdir('/work')",
                                   timeout_s=300, _timeout=400)
            self.assert_ok(result)
            self.assertIn("changes: too many to count", result.status.line)
            result = server.python("import os; open('f.txt', 'w').write('code'); os.remove('g.txt')")
            self.assertIn("too many to count", result.status.line)
            self.save("f.txt", "user"), self.save("g.txt", "user")
            self.assert_ok(server.python("import shutil; shutil.rmtree('d' * 250)", timeout_s=300, _timeout=400))
            for _ in range(40):  # scans are left out for a while
                self.assert_ok(server.python("x = 1"))
            self.assert_kept(server, {"f.txt": "user", "g.txt": "user"})

    def test_a_directory_in_another_s_place(self):
        self.put("src/f.txt", "old"), self.put("src.new/f.txt", "user")
        time.sleep(0.05)

        def swap():
            os.rename(self.dir / "src", self.dir / "src.old")
            os.rename(self.dir / "src.new", self.dir / "src")

        with self.start() as server:
            self.assert_ok(server.python("x = 1"))
            self.meanwhile(server, "open('src/f.txt', 'w').write('code')", swap)
            self.assert_kept(server, {"src/f.txt": "user", "src.old/f.txt": "old"})

    def test_a_file_that_the_user_removes(self):
        self.put("d/f.txt", "old"), self.put("d/keep")
        time.sleep(0.05)
        with self.start() as server:
            self.assert_ok(server.python("x = 1"))
            self.meanwhile(server, "open('d/f.txt', 'w').write('code')", lambda: (self.dir / "d/f.txt").unlink())
            self.assert_kept(server, {"d/f.txt": None})

    def test_a_directory_that_the_user_takes_away(self):
        """It does not come back, whatever code changes or makes in it."""
        write = "open('d/f.txt', 'w').write('code'); open('d/e/g.txt', 'w').write('code'); open('d/new', 'w').write('code')"
        for at, (act, left) in enumerate((
                (lambda: shutil.rmtree(self.dir / "d"), []),
                (lambda: os.rename(self.dir / "d", self.dir / "moved"), ["moved", "moved/e", "moved/e/g.txt", "moved/f.txt"]))):
            for before, after in ((write, ""), ("x = 1", write), (write, None)):
                with self.subTest(at=at, after=after):
                    for name in ("d", "moved"):
                        shutil.rmtree(self.dir / name, ignore_errors=True)
                    self.put("d/f.txt", "old"), self.put("d/e/g.txt", "old")
                    time.sleep(0.05)
                    with self.start() as server:
                        self.assert_ok(server.python("x = 1"))
                        if after is None:
                            self.assert_ok(server.python(before))
                            act()
                        else:
                            self.meanwhile(server, before, act, f"try: {after or 'pass'}\nexcept OSError: pass")
                        self.assert_ok(server.python("try: open('d/later', 'w').write('code')\nexcept OSError: pass"))
                        listed = server.call("list_changes").text
                        text = self.apply(server).text
                        found = sorted(str(path.relative_to(self.dir)) for path in self.dir.rglob("*"))
                        self.assertEqual(found, left, f"{listed}\n{text}")
                        self.assertNotIn("[no changes left]", text)
                        for line in listed.splitlines()[:-1]:
                            self.assertIn("also changed by the user", line)
                        if not after:
                            self.assertIn("discarded", server.call("apply_changes", discard=True).text)
                        self.assertIn("no changes", server.call("list_changes").text)

    def test_a_directory_that_code_removes_and_the_user_uses(self):
        self.put("d/a"), self.put("d/b")
        with self.start() as server:
            self.assert_ok(server.python("import shutil; shutil.rmtree('d')"))
            (self.dir / "d/theirs").write_text("user")
            text = self.apply(server).text
            self.assertIn("applied 2 of 2", text)
            self.assertIn("d: directory kept: it contains other files of the user's", text)
            self.assertIn("[1 change not applied]", text)
        self.assertEqual(sorted(os.listdir(self.dir / "d")), ["theirs"])

    def test_a_directory_in_which_the_user_works_too(self):
        """What they add beside the code's file is no conflict, in directories that code has known or not."""
        self.put("d/e/f.txt", "old"), self.put("d/e/g.txt", "old")
        time.sleep(0.05)
        with self.start() as server:
            self.assert_ok(server.python("x = 1"))
            self.meanwhile(server, "open('d/e/f.txt', 'w').write('code')", lambda: (self.dir / "d/e/theirs").write_text("user"),
                           "open('d/e/g.txt', 'w').write('code')")
            self.assertIn("applied 2 of 2", self.apply(server).text)
        self.assertEqual([self.read(f"d/e/{name}") for name in ("f.txt", "g.txt", "theirs")], ["code", "code", "user"])

    def test_what_code_changes_after_the_user(self):
        """The ordinary way: the user saves, the next call changes the file, and it is applied."""
        self.put("d/f.txt", "old")
        with self.start() as server:
            self.assert_ok(server.python("x = 1"))
            for turn in range(3):
                self.save("d/f.txt", f"user {turn}")
                time.sleep(0.05)
                self.assert_ok(server.python(f"open('d/f.txt', 'a').write(' code {turn}')" if turn == 0 else "x = 2"))
            self.assertIn("applied", self.apply(server).text)

    @once
    def test_another_directory_while_it_is_applied(self):
        self.put("d/x"), self.put("d.new/theirs", "user")
        with self.start() as server:
            self.assert_ok(server.python("for i in range(3000): open(f'd/{i}', 'w').write('code')", timeout_s=100))

            def swap():
                os.rename(self.dir / "d", self.dir / "d.theirs")
                os.rename(self.dir / "d.new", self.dir / "d")

            with self.at((self.dir / "d/200").exists, swap):
                text = self.apply(server).text
            self.assertTrue(self.acted)
        self.assertEqual(os.listdir(self.dir / "d"), ["theirs"], text[:500])

    def test_a_move_that_is_applied_by_half(self):
        """Where the new name is not applied, the old one stays: no other has its content in DIR."""
        self.put("precious.yml", "user")
        with self.start() as server:
            self.assert_ok(server.python("import os; os.makedirs('.github/workflows'); os.rename('precious.yml', '.github/workflows/ci.yml')"))
            text = self.apply(server).text
            self.assertEqual(sorted(os.listdir(self.dir)), ["precious.yml"], text)
            self.assertIn("precious.yml: kept: the changes that are not applied may have its content", text)
            self.assertIn("applied 2 of 2", self.apply(server, paths=[".github/workflows/ci.yml", "precious.yml"]).text)
        self.assertEqual([path.name for path in self.dir.rglob("*") if path.is_file()], ["ci.yml"])

    def test_a_move_is_applied_whole_beside_what_must_be_named(self):
        self.put("LICENSE", "user")
        with self.start() as server:
            self.assert_ok(server.python("import os; os.rename('LICENSE', 'LICENSE.txt'); open('.envrc', 'w').write('code')"))
            self.assertIn("applied 2 of 3", self.apply(server).text)
        self.assertEqual(os.listdir(self.dir), ["LICENSE.txt"])

    def test_a_move_whose_new_name_is_edited_while_it_is_applied(self):
        self.put("LICENSE", "user")
        with self.start() as server:
            self.assert_ok(server.python("import os; os.rename('LICENSE', '0'); open('.envrc', 'w').write('code'); os.mkdir('d')\n"
                                         "for i in range(3000): open(f'd/{i}', 'w').write('code')", timeout_s=100))
            with self.at((self.dir / "d/200").exists, lambda: self.put("0", "edit")):
                text = self.apply(server).text
            self.assertTrue(self.acted)
        self.assertEqual(((self.dir / "0").read_text(), (self.dir / "LICENSE").read_text()), ("edit", "user"), text[:500])


if __name__ == "__main__":
    unittest.main()
