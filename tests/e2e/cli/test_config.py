"""sandpiper config: the entries for clients, and their installation into files that belong to a user."""
import glob
import json
import os
import pathlib
import re
import stat
import subprocess
import sys
import tempfile

from client import COMMAND, SLOW, Case

try:
    import tomllib
except ImportError:  # before Python 3.11
    tomllib = None

# client: (its file below the home directory, the object with its servers)
BACKUP = ".before-sandpiper"
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
    """The program and its arguments in any client's form."""
    command = entry["command"]
    return command if isinstance(command, list) else [command, *entry["args"]]


class Config(Case):
    def setUp(self):
        super().setUp()
        directory = tempfile.TemporaryDirectory(prefix="sp-config-")
        self.addCleanup(directory.cleanup)
        self.home = pathlib.Path(directory.name)

    def config(self, *args, status=0, cwd=None, **env):
        done = subprocess.run([*COMMAND, "config", *args], capture_output=True, text=True, cwd=cwd,
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

    def test_printed_entry_starts_a_server(self):
        for host, (path, section) in HOSTS.items():
            with self.subTest(host=host):
                done = self.config("--host", host, "--name", "py", "--", "--memory", "256M")
                self.assertIn(str(self.home / path), done.stderr)
                self.assertIn("without a workspace", done.stderr)
                self.assertFalse((self.home / path).exists())
                command = command_of(self.parse(path, done.stdout)[section]["py"])
                self.assertEqual(command[1:], ["--memory", "256M"])
                hello = '{"jsonrpc": "2.0", "id": 1, "method": "ping"}\n'
                self.assertIn('"result"', subprocess.run(
                    command, input=hello, capture_output=True, text=True,
                    timeout=60 * SLOW).stdout)

    def test_install_keeps_the_other_entries(self):
        for host, (path, section) in HOSTS.items():
            with self.subTest(host=host):
                self.config("--host", host, "--install", "--name", "first")
                file = self.home / path
                before = file.read_text()
                done = self.config("--host", host, "--install", "--name", "second")
                backup = pathlib.Path(str(file) + BACKUP)
                self.assertIn(str(backup), done.stdout)
                self.assertEqual(backup.read_text(), before)
                self.assertEqual(list(self.parse(path, file.read_text())[section]),
                                 ["first", "second"])
                self.assertIn("already", self.config("--host", host, "--install", "--name",
                                                     "second").stdout)
                self.assertEqual(sorted(one.name for one in file.parent.glob(file.name + "*")),
                                 [file.name, backup.name])

    def test_an_entry_is_replaced(self):
        for host, (path, section) in HOSTS.items():
            with self.subTest(host=host):
                self.config("--host", host, "--install", "--", "--memory", "2G")
                self.config("--host", host, "--install", "--name", "other")
                done = self.config("--host", host, "--install", "--", "--memory", "3G")
                self.assertIn('replaced "sandbox"', done.stdout)
                entries = self.parse(path, (self.home / path).read_text())[section]
                self.assertEqual(command_of(entries["sandbox"])[-1], "3G")
                self.assertEqual(list(entries), ["sandbox", "other"])

    def test_what_the_user_has_added_to_the_entry_stays(self):
        for host, (path, section) in HOSTS.items():
            with self.subTest(host=host):
                file = self.home / path
                self.config("--host", host, "--install", "--", "--memory", "2G")
                if host == "codex":
                    file.write_text(file.read_text() + 'env = {A = "1", # one\n}\nstartup_timeout_sec = 99\n[mcp_servers.sandbox.more]\nb = "2"\n')
                    added = {"env": {"A": "1"}, "startup_timeout_sec": 99, "more": {"b": "2"}}
                    if sys.version_info >= (3, 11):
                        file.write_text(file.read_text().replace(" # one\n", " "))
                        file.write_text(file.read_text().replace('"1", }', '"1"}'))
                else:
                    added = {"env": {"A": "1"}, "disabled": True, "alwaysAllow": ["run_python"], "description": "mine"}
                    added.update({"enabled": False} if host == "opencode" else {"tools": ["run_python"]} if host == "copilot" else {})
                    content = json.loads(file.read_text())
                    content[section]["sandbox"].update(added)
                    file.write_text(json.dumps(content, indent=2))
                self.assertIn("already", self.config("--host", host, "--install", "--", "--memory", "2G").stdout)
                self.config("--host", host, "--install", "--", "--memory", "3G")
                entry = self.parse(path, file.read_text())[section]["sandbox"]
                self.assertEqual(command_of(entry)[-1], "3G")
                self.assertEqual({key: entry.get(key) for key in added}, added)

    def test_nothing_of_a_server_of_another_kind_stays(self):
        for host, text in (("cursor", '{"mcpServers": {"sandbox": {"url": "https://x.test", "headers": {"a": "b"}}}}'),
                           ("codex", '[mcp_servers.sandbox]\nurl = "https://x.test"\n'),
                           ("codex", '[mcp_servers.sandbox]\nurl = "u"\n[mcp_servers.sandbox.http_headers]\nA = "x.test"\n[tui]\n')):
            path, section = HOSTS[host]
            (self.home / path).parent.mkdir(exist_ok=True)
            (self.home / path).write_text(text)
            self.config("--host", host, "--install")
            self.assertNotIn("x.test", (self.home / path).read_text())

    def test_comments_stay_and_the_last_text_is_kept(self):
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
        kept = pathlib.Path(str(file) + BACKUP)
        self.assertIn('"sandbox"', kept.read_text())
        self.assertNotIn('"99"', kept.read_text())
        self.assertEqual(len(list(file.parent.iterdir())), 2)
        for path in (file, kept):
            self.assertEqual(stat.S_IMODE(path.stat().st_mode), 0o640)

    def test_a_file_it_cannot_parse_stays_and_the_entry_is_printed(self):
        for host, text in (("cursor", '{"mcpServers": '), ("cursor", '{"mcpServers": 1}'),
                           ("codex", "[mcp_servers]\nsandbox = {}\n"),
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

    def args_of(self, host="cursor"):
        path, section = HOSTS[host]
        return command_of(self.parse(path, (self.home / path).read_text())[section]["sandbox"])[1:]

    def test_install_gives_files_a_directory_of_the_users(self):
        place = self.home / "Sandpiper"
        done = self.config("--host", "cursor", "--install", "--", "--memory", "2G")
        self.assertEqual(self.args_of(), ["--workspace", str(place), "--memory", "2G"])
        self.assertIn(f"files are kept in {place}", done.stdout)
        self.assertEqual(stat.S_IMODE(place.stat().st_mode), 0o700)
        (place / "kept.txt").write_text("mine")
        self.assertIn("already", self.config("--host", "cursor", "--install", "--", "--memory", "2G").stdout)
        self.assertEqual((place / "kept.txt").read_text(), "mine")

    def test_install_adds_no_second_workspace_and_none_that_is_refused(self):
        other = self.home / "other"
        other.mkdir()
        self.config("--host", "cursor", "--install", "--", f"--workspace={other}")
        self.assertEqual(self.args_of(), ["--workspace", str(other)])
        self.config("--host", "zed", "--install", "--in-memory")
        self.assertEqual(self.args_of("zed"), [])
        settings = self.home / ".config/sandpiper/config"
        settings.parent.mkdir()
        settings.write_text(f"workspace = {other}\n")
        self.config("--host", "gemini", "--install")
        self.assertEqual(self.args_of("gemini"), [])
        settings.unlink()
        self.assertFalse((self.home / "Sandpiper").exists())
        for make in (lambda place: place.symlink_to(self.home), lambda place: place.write_text("a file")):
            make(self.home / "Sandpiper")
            done = self.config("--host", "cursor", "--install")
            self.assertEqual(self.args_of(), [])
            self.assertIn("files stay in memory", done.stderr)
            (self.home / "Sandpiper").unlink()

    def test_relative_paths_of_the_flags_become_absolute(self):
        """A client starts the server in a directory of its own."""
        project = self.home / "project"
        environment = project / ".venv"
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", environment], check=True, timeout=60 * SLOW)
        for name in ("data", "wheels"):
            (self.home / name).mkdir()
        flags = ["--workspace", "./project/.", "--python=project/.venv/bin/python", "--record", "rec", "--mount", "data:d:rw",
                 "--cow", "--cow-store", "store", "--cache=c", "--find-links", "wheels"]
        wanted = ["--workspace", f"{self.home}/project/.", "--python", f"{environment}/bin/python", "--record",
                  f"{self.home}/rec", "--mount", f"{self.home}/data:d:rw", "--cow", "--cow-store", f"{self.home}/store",
                  "--cache", f"{self.home}/c", "--find-links", f"{self.home}/wheels"]
        self.config("--host", "cursor", "--install", "--", *flags, cwd=self.home)
        self.assertEqual(self.args_of(), wanted)
        shown = json.loads(self.config("--host", "cursor", "--", *flags, cwd=self.home).stdout)
        self.assertEqual(shown["mcpServers"]["sandbox"]["args"], wanted)
        self.config("--host", "gemini", "--install", "--", "--workspace=~/project")
        self.assertEqual(self.args_of("gemini"), ["--workspace", "~/project"])
        for here in (".", "./"):
            self.config("--host", "zed", "--install", "--", "--workspace", here, "--python", "python3", cwd=project)
            self.assertEqual(self.args_of("zed"), ["--workspace", str(project), "--python", "python3"])

    def test_what_the_server_would_refuse_is_not_installed(self):
        (self.home / "Sandpiper").mkdir()
        for flags, word in ((["--python", "./no/python"], "no/python"), (["--record", "Sandpiper/rec"], "overlap"),
                            (["--workspace", "gone"], "gone"), (["--mount", "Sandpiper:rx"], "misspelt")):
            with self.subTest(flags=flags):
                done = self.config("--host", "cursor", "--install", "--", *flags, cwd=self.home, status=2)
                self.assertIn(word, done.stderr)
                self.assertEqual([one.name for one in self.home.iterdir()], ["Sandpiper"])

    def test_installs_at_the_same_time_lose_nothing(self):
        commands = [subprocess.Popen([*COMMAND, "config", "--host", "gemini", "--install", "--in-memory", "--name", f"n{n}"],
                                     env={"PATH": os.environ["PATH"], "HOME": str(self.home)}, stdout=subprocess.PIPE,
                                     stderr=subprocess.STDOUT, text=True) for n in range(24)]
        for command in commands:
            self.assertIn("added", command.communicate(timeout=60 * SLOW)[0])
        file = self.home / ".gemini/settings.json"
        self.assertEqual(set(json.loads(file.read_text())["mcpServers"]), {f"n{n}" for n in range(24)})
        self.assertEqual([one.name for one in file.parent.iterdir() if not re.fullmatch(r"settings\.json(\.before-sandpiper)?", one.name)], [])

    def test_without_a_host_it_serves_the_clients_that_are_found(self):
        for place in (".cursor", ".codex", ".config/Claude"):
            (self.home / place).mkdir(parents=True)
        (self.home / ".claude.json").write_text("{}")
        done = self.config("--install")
        self.assertEqual(re.findall(r"^([a-z-]+): added", done.stdout, re.M),
                         ["claude-code", "claude-desktop", "codex", "cursor"])
        self.assertIn('Next: restart claude-code, claude-desktop, codex, cursor, where it is the server "sandbox", then ask', done.stdout)
        self.assertNotIn("Next:", self.config("--install").stdout)
        self.assertIn(f"For {self.home}/.codex/config.toml", self.config().stderr)
        self.assertIn("sandbox", (self.home / ".codex/config.toml").read_text())
        (self.home / ".cursor/mcp.json").write_text("{")
        done = self.config("--install", "--", "--pids", "99", status=1)
        self.assertEqual(re.findall(r"^([a-z-]+): replaced", done.stdout, re.M), ["claude-code", "claude-desktop", "codex"])
        self.assertIn("is unchanged", done.stderr)
        self.assertIn("Next: restart claude-code, claude-desktop, codex, where", done.stdout)

    def test_without_a_host_and_a_client_it_lists_those_it_knows(self):
        *names, last = HOSTS
        known = f"{', '.join(names)} or {last}"
        self.assertIn(f"no client was found; name it with --host: {known}\n", self.config("--install", status=2).stderr)
        self.assertIn(f"--host takes {known}, not emacs\n", self.config("--host", "emacs", status=2).stderr)
        self.assertEqual(list(self.home.iterdir()), [])

    def test_any_python_makes_the_same_entry(self):
        """Of config.py itself; with bytes that are not the locale's."""
        (self.home / "ü").mkdir()
        flags = ("--install", "--file", "ü/f", "--in-memory", "--", "--allow-package", "ä€")
        for path in sorted(glob.glob("/usr/bin/python3.*[0-9]") + glob.glob(os.path.expanduser("~/.pyenv/versions/3.*/bin/python3"))):
            if subprocess.run([path, "-c", "import sys; sys.exit(sys.version_info < (3, 9))"]).returncode == 0:
                for host in ("cursor", "codex"):
                    with self.subTest(path=path, host=host):
                        self.config("--host", host, *flags, "--python", path, cwd=self.home, LC_ALL="de_DE.ISO-8859-1")
                        file = self.home / "ü/f"
                        self.assertIn(f'"ä€",{" " * 8 if host == "cursor" else " "}"--python"', file.read_text().replace("\n", ""))
                        file.unlink()

    def test_without_a_python_it_says_so(self):
        wrap = ["unshare", "-Urm", "sh", "-ec", 'mount -t tmpfs none /usr/bin; exec "$@"', "sh"]
        tried = subprocess.run([*wrap, *COMMAND, "--version"], capture_output=True, text=True)
        if tried.returncode:
            self.skipTest(f"userns: {tried.stderr.strip()}")
        for action in ("--install", "--uninstall"):
            done = subprocess.run([*wrap, *COMMAND, "config", "--host", "cursor", action], capture_output=True, text=True,
                                  env={"PATH": "/nonexistent:/usr/bin", "HOME": str(self.home)}, timeout=60 * SLOW)
            self.assertEqual((done.returncode, done.stdout), (1, ""), done.stderr)
            self.assertIn("config needs a CPython 3.9 or newer", done.stderr)
            self.assertEqual(list(self.home.iterdir()), [])

    def test_what_was_installed_is_removed(self):
        for host, (path, section) in HOSTS.items():
            with self.subTest(host=host):
                file = self.home / path
                self.config("--host", host, "--install", "--name", "first")
                self.config("--host", host, "--install")
                done = self.config("--host", host, "--uninstall")
                self.assertIn(f'{host}: removed "sandbox" from {file}', done.stdout)
                self.assertEqual(list(self.parse(path, file.read_text())[section]), ["first"])
                self.assertIn('no such entry: "sandbox"; --name NAME', self.config("--host", host, "--uninstall").stdout)
        done = self.config("--uninstall", "--name", "first")
        self.assertEqual(done.stdout.count('removed "first"'), len(HOSTS))
        for path, section in HOSTS.values():
            self.assertFalse(self.parse(path, (self.home / path).read_text()).get(section), path)

    def test_tables_of_its_own_are_removed_with_the_entry(self):
        """Codex writes the environment of a server into one."""
        file = self.home / ".codex/config.toml"
        file.parent.mkdir()
        env, others = '[mcp_servers.sandbox.env]\nTOKEN = "t"\n', 'model = "o3"\n\n[mcp_servers.other]\ncommand = "x"\n'
        for before, after in (("", f"# of mine\n{env}# more\n[mcp_servers.sandbox.tools.run_python]\nx = 1\n\n# tui\n[tui]\na = 1\n"), (env, "")):
            file.write_text(f'{others}{before}[mcp_servers.sandbox]\ncommand = "old"\n{after}')
            self.config("--host", "codex", "--install")
            self.assertEqual(self.parse("config.toml", file.read_text())["mcp_servers"]["sandbox"]["env"], {"TOKEN": "t"})
            self.config("--host", "codex", "--uninstall")
            self.assertEqual(file.read_text(), others + ("\n# tui\n[tui]\na = 1\n" if after else ""))
        file.write_text('mcp_servers.sandbox.command = "x"\n')
        self.assertIn("remove it by hand", self.config("--host", "codex", "--uninstall", status=1).stderr)

    def test_uninstall_makes_nothing(self):
        self.assertIn("there is no", self.config("--host", "cursor", "--uninstall").stdout)
        self.assertEqual(list(self.home.iterdir()), [])

    def test_an_installation_that_fails_leaves_no_directory(self):
        file = self.home / ".claude.json"
        file.write_text("{")
        done = self.config("--host", "claude-code", "--install", status=1)
        self.assertNotIn("files are kept", done.stdout)
        self.assertEqual(list(self.home.iterdir()), [file])

    def test_a_read_only_file_stays(self):
        file = self.home / ".claude.json"
        file.write_text("{}")
        file.chmod(0o400)
        done = self.config("--host", "claude-code", "--install", status=1)
        self.assertIn("is read-only", done.stderr)
        self.assertEqual((file.read_text(), stat.S_IMODE(file.stat().st_mode)), ("{}", 0o400))

    def test_long_blanks_and_comments_take_no_longer_than_their_size(self):
        """Time that grows with the square of 16 million blanks would not end."""
        file = self.home / ".cursor/mcp.json"
        file.parent.mkdir()
        text = '{"a": 1,' + " " * 8_000_000 + "/*" + "x" * 8_000_000 + "*/}"
        file.write_text(text)
        self.config("--host", "cursor", "--install")
        self.assertIn("sandbox", file.read_text())

    def test_a_symlink_stays_a_symlink(self):
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
            [".config/opencode/opencode.jsonc", ".config/opencode/opencode.jsonc" + BACKUP,
             "other/claude/.claude.json", "other/codex/config.toml", "other/here/mcp.json",
             "other/xdg/zed/settings.json"])
        done = self.config("--host", "zed", "--install", status=1, HOME="")
        self.assertIn("--file", done.stderr)

    def test_clients_with_shorter_timeouts_get_the_longest_call(self):
        done = self.config("--host", "codex", "--", "--max-timeout", "1200")
        limit = int(re.search(r"tool_timeout_sec = (\d+)", done.stdout)[1])
        self.assertGreater(limit, 1200)
        done = self.config("--host", "gemini", "--", "--max-timeout", "1200")
        self.assertGreater(json.loads(done.stdout)["mcpServers"]["sandbox"]["timeout"], 1200_000)

    def test_mistakes_are_usage_errors(self):
        for args, word in (([], "--host: claude-code"), (["--host", "emacs"], "claude-code"),
                           (["--host"], "--host"), (["--host", "zed", "--memory", "1G"], "--memory"),
                           (["--host", "zed", "--", "--memory", "x"], "--memory"),
                           (["--host", "zed", "--", "run", "-c", "1"], "run"),
                           (["--host", "zed", "more"], "more"), (["cursor"], "did you mean --host cursor?"),
                           (["install"], "did you mean --install?"),
                           (["--host", "zed", "--name", "a b"], "a b"),
                           (["--host", "zed", "--name", ""], "--name"),
                           (["--file", "x.json"], "--host"), (["--uninstall"], "--uninstall")):
            with self.subTest(args=args):
                done = self.config("--install", *args, status=2)
                self.assertIn(word, done.stderr)
                self.assertEqual((done.stdout, list(self.home.iterdir())), ("", []))
