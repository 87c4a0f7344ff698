"""Settings: the configuration file, and the flags that override it."""
import os
import pathlib
import re
import tempfile
import unittest

from client import Case, Server, run_cli


class Configuration(Case):
    """Uses `doctor --effective`, which starts no sandbox and reads the same settings as every command."""

    def setUp(self):
        directory = tempfile.TemporaryDirectory(prefix="sp-config-")
        self.addCleanup(directory.cleanup)
        self.file = pathlib.Path(directory.name, "sandpiper", "config")
        self.file.parent.mkdir()
        self.env = {**os.environ, "XDG_CONFIG_HOME": directory.name}

    def effective(self, text, *flags):
        self.file.write_text(text)
        done = run_cli("doctor", "--effective", *flags, env=self.env)
        rows = [re.split(r"\s{2,}|(?<=\S) (?=default$)", line) for line in done.stdout.decode().splitlines()]
        return done, {row[0]: tuple(row[1:]) for row in rows}

    def test_flags_override_the_configuration_file(self):
        done, rows = self.effective("# mine\n\nmemory = 2G\r\n  timeout=12  \nresources = yes\nrequire = memory\nstructured = no",
                                    "--timeout", "5", "--require=landlock")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(rows["memory"], ("2G", f"{self.file}:3"))
        self.assertEqual(rows["timeout"], ("5", "command line"))
        self.assertEqual(rows["resources"], ("yes", f"{self.file}:5"))
        self.assertEqual((rows["require"], rows[""]), (("memory", f"{self.file}:6"), ("landlock", "command line")))
        self.assertEqual(rows["structured"], ("no", "default"))
        self.assertEqual(rows["pids"], ("256", "default"))

    def test_config_flag_names_another_file(self):
        self.file.write_text("memory = 3G\n")
        other = self.file.with_name("other")
        other.write_text("pids = 99\n")
        for flags in (("--config", str(other)), (f"--config={other}",), ("--config", "/none", "--config", str(other))):
            rows = self.effective("disk = 77M\n", *flags)[1]
            self.assertEqual((rows["pids"], rows["disk"]), (("99", f"{other}:1"), ("1G", "default")))
        self.assertEqual(self.effective("disk = 77M\n", "--config=/dev/null")[1]["disk"], ("1G", "default"))

    def test_sizes_in_force_are_shown_and_agree_with_the_tools(self):
        """By default a quarter of the machine's memory, which may be reduced by the limit of a container; files in memory
        take at most three quarters of the memory."""
        rows = self.effective("")[1]
        size, source = rows["memory"]
        mib = int(size[:-1]) * (1024 if size.endswith("G") else 1)
        quarter = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 4 >> 20
        self.assertEqual(source, "default")
        self.assertLessEqual(mib, min(max(quarter, 1024), 8192))
        self.assertEqual(self.effective("memory = auto")[1]["memory"][0], f"{size}, from auto")
        shown = f"{mib // 1024} GiB" if mib % 1024 == 0 else f"{mib} MiB"
        self.assertIn(f"; {shown} of memory,", run_cli("schema", env=self.env).stdout.decode())
        for disk in ("1G", "70M"):
            rows = self.effective("memory = 512M", "--disk", disk, "--isolation=auto")[1]
            self.assertEqual(rows["disk"][0], "384M, from 1G" if disk == "1G" else "70M")
        self.assertEqual(rows["undo-files"][0], "32M")
        rows = self.effective("max-timeout = 10")[1]
        self.assertEqual([rows[name][0] for name in ("timeout", "max-timeout")], ["10", "10"])
        self.assertEqual(self.effective("timeout = 4000")[1]["max-timeout"][0], "4000")

    def test_mistakes_are_reported_with_file_and_line(self):
        for text, sentence in {
            "\nmemry = 1G": "2: memry is not a setting",
            "memory": '1: a line must be "name = value"',
            "memory =": "1: memory needs a value: memory = SIZE",
            "memory = x": '1: --memory takes a size such as 512M or 2G, not "x"',
            "resources = maybe": '1: resources takes yes or no, not "maybe"',
            "json = yes": "1: json belongs to one command",
            "pids = 99\npids = 99": "2: pids is set twice",
            "\0": "is not text",
            "#" * 70000: "has more than 65536 bytes",
        }.items():
            with self.subTest(text[:20]):
                done = self.effective(text)[0]
                self.assertEqual(done.returncode, 2)
                self.assertIn(sentence, done.stderr.decode())

    def test_a_file_that_others_can_write_is_refused(self):
        self.file.write_text("memory = 2G\n")
        self.file.chmod(0o666)
        done = run_cli("doctor", "--effective", env=self.env)
        self.assertEqual(done.returncode, 2)
        self.assertIn("is writable by everybody", done.stderr.decode())

    def test_a_missing_or_irregular_file_is_refused(self):
        for path, why in (("/none/at/all", "No such file"), (str(self.file.parent), "is not a regular file")):
            done = run_cli("doctor", "--effective", "--config", path, env=self.env)
            self.assertEqual(done.returncode, 2)
            self.assertIn(why, done.stderr.decode())

    def test_a_server_with_a_bad_file_serves_and_says_what_to_fix(self):
        self.file.write_text("memory = much\n")
        with Server("--config", str(self.file)) as server:
            result = server.python("1")
            self.assertTrue(result.is_error)
            self.assertIn(f"{self.file}:1: --memory takes a size", result.text)


if __name__ == "__main__":
    unittest.main()
