"""sandpiper config: the entries of hosts, and how they get into files that belong to a user."""
import json
import os
import pathlib
import re
import stat
import subprocess
import tempfile

from client import COMMAND, SLOW, Case

try:
    import tomllib
except ImportError:  # before Python 3.11
    tomllib = None

# host: (its file below the home folder, the object with its servers)
HOSTS = {
    "claude-code": (".claude.json", "mcpServers"),
    "claude-desktop": (".config/Claude/claude_desktop_config.json", "mcpServers"),
    "codex": (".codex/config.toml", "mcp_servers"),
    "copilot": (".copilot/mcp-config.json", "mcpServers"),
    "cursor": (".cursor/mcp.json", "mcpServers"),
    "gemini": (".gemini/settings.json", "mcpServers"),
    "opencode": (".config/opencode/opencode.json", "mcp"),
    "vscode": (".config/Code/User/mcp.json", "servers"),
    "zed": (".config/zed/settings.json", "context_servers"),
}


def command_of(entry):
    """The program and its arguments, whichever way a host writes them."""
    command = entry["command"]
    return command if isinstance(command, list) else [command, *entry["args"]]


class Config(Case):
    def setUp(self):
        super().setUp()
        folder = tempfile.TemporaryDirectory(prefix="sp-config-")
        self.addCleanup(folder.cleanup)
        self.home = pathlib.Path(folder.name)

    def config(self, *args, status=0, **env):
        done = subprocess.run([*COMMAND, "config", *args], capture_output=True, text=True,
                              env={"PATH": os.environ["PATH"], "HOME": str(self.home), **env},
                              timeout=60 * SLOW)
        self.assertEqual(done.returncode, status, done.stderr)
        return done

    def parse(self, path, text):
        if path.endswith(".toml"):
            if not tomllib:
                self.skipTest("tomllib: Python before 3.11 has none")
            return tomllib.loads(text)
        return json.loads(text)

    def test_what_is_printed_starts_a_server(self):
        for host, (path, section) in HOSTS.items():
            with self.subTest(host=host):
                done = self.config("--host", host, "--name", "py", "--", "--memory", "256M")
                self.assertIn(str(self.home / path), done.stderr)
                self.assertFalse((self.home / path).exists())
                command = command_of(self.parse(path, done.stdout)[section]["py"])
                self.assertEqual(command[1:], ["--memory", "256M"])
                hello = '{"jsonrpc": "2.0", "id": 1, "method": "ping"}\n'
                self.assertIn('"result"', subprocess.run(
                    command, input=hello, capture_output=True, text=True,
                    timeout=60 * SLOW).stdout)

    def test_installed_it_is_beside_what_was_there(self):
        for host, (path, section) in HOSTS.items():
            with self.subTest(host=host):
                self.config("--host", host, "--install", "--name", "first")
                file = self.home / path
                before = file.read_text()
                done = self.config("--host", host, "--install", "--name", "second")
                backup = pathlib.Path(str(file) + ".bak")
                self.assertIn(str(backup), done.stdout)
                self.assertEqual(backup.read_text(), before)
                self.assertEqual(list(self.parse(path, file.read_text())[section]),
                                 ["first", "second"])
                self.assertIn("already", self.config("--host", host, "--install", "--name",
                                                     "second").stdout)
                self.assertEqual(sorted(one.name for one in file.parent.glob(file.name + "*")),
                                 [file.name, backup.name])

    def test_comments_stay_and_each_change_keeps_the_file_before_it(self):
        file = self.home / ".config/zed/settings.json"
        file.parent.mkdir(parents=True)
        text = '// mine\n{\n    "theme": "x", // dark\n}\n'
        file.write_text(text)
        file.chmod(0o640)
        self.config("--host", "zed", "--install")
        self.config("--host", "zed", "--install", "--", "--pids", "99")
        changed = file.read_text()
        self.assertTrue(changed.startswith('// mine\n{\n    "theme": "x", // dark\n    "context'))
        self.assertEqual(changed.count('"sandbox"'), 1)
        self.assertIn('"99"', changed)
        self.assertEqual(pathlib.Path(str(file) + ".bak").read_text(), text)
        self.assertIn('"args": []', pathlib.Path(str(file) + ".bak.1").read_text())
        for path in (file, pathlib.Path(str(file) + ".bak")):
            self.assertEqual(stat.S_IMODE(path.stat().st_mode), 0o640)

    def test_what_it_does_not_understand_stays_and_the_entry_is_printed(self):
        for host, text in (("cursor", '{"mcpServers": '), ("cursor", '{"mcpServers": 1}'),
                           ("codex", "[mcp_servers.sandbox]\ncommand = 'other'\n"),
                           ("codex", "what\n")):
            path, section = HOSTS[host]
            with self.subTest(text=text):
                file = self.home / path
                file.parent.mkdir(exist_ok=True)
                file.write_text(text)
                done = self.config("--host", host, "--install", status=1)
                self.assertIn(str(file), done.stderr)
                self.assertIn(section, done.stdout)
                self.assertIn("sandbox", done.stdout)
                self.assertEqual(file.read_text(), text)
                self.assertEqual(list(file.parent.iterdir()), [file])

    def test_a_link_stays_a_link(self):
        kept = self.home / "dotfiles.json"
        kept.write_text("{}")
        (self.home / ".claude.json").symlink_to(kept)
        self.config("--host", "claude-code", "--install")
        self.assertTrue((self.home / ".claude.json").is_symlink())
        self.assertIn("sandbox", kept.read_text())

    def test_the_environment_and_a_flag_choose_the_file(self):
        other = self.home / "other"
        self.config("--host", "codex", "--install", CODEX_HOME=str(other / "codex"))
        self.config("--host", "claude-code", "--install", CLAUDE_CONFIG_DIR=str(other / "claude"))
        self.config("--host", "zed", "--install", XDG_CONFIG_HOME=str(other / "xdg"))
        self.config("--host", "vscode", "--install", "--file", str(other / "here" / "mcp.json"))
        (self.home / ".config/opencode").mkdir(parents=True)
        (self.home / ".config/opencode/opencode.jsonc").write_text("{/* */}")
        self.config("--host", "opencode", "--install")
        self.assertEqual(
            sorted(str(path.relative_to(self.home)) for path in self.home.rglob("*")
                   if path.is_file()),
            [".config/opencode/opencode.jsonc", ".config/opencode/opencode.jsonc.bak",
             "other/claude/.claude.json", "other/codex/config.toml", "other/here/mcp.json",
             "other/xdg/zed/settings.json"])
        done = self.config("--host", "zed", "--install", status=1, HOME="")
        self.assertIn("--file", done.stderr)

    def test_the_longest_call_is_told_to_hosts_that_give_up_before(self):
        done = self.config("--host", "codex", "--", "--max-timeout", "1200")
        limit = int(re.search(r"tool_timeout_sec = (\d+)", done.stdout)[1])
        self.assertGreater(limit, 1200)
        done = self.config("--host", "gemini", "--", "--max-timeout", "1200")
        self.assertGreater(json.loads(done.stdout)["mcpServers"]["sandbox"]["timeout"], 1200_000)

    def test_mistakes_are_usage_errors(self):
        for args, word in (([], "--host"), (["--host", "emacs"], "claude-code"),
                           (["--host"], "--host"), (["--host", "zed", "--memory", "1G"], "--memory"),
                           (["--host", "zed", "--", "--memory", "x"], "--memory"),
                           (["--host", "zed", "--", "run", "-c", "1"], "run"),
                           (["--host", "zed", "more"], "more"),
                           (["--host", "zed", "--name", "a b"], "a b"),
                           (["--host", "zed", "--name", ""], "--name")):
            with self.subTest(args=args):
                done = self.config("--install", *args, status=2)
                self.assertIn(word, done.stderr)
                self.assertEqual((done.stdout, list(self.home.iterdir())), ("", []))
