"""sandpiper config in this process: the texts of clients' files with an entry and without one, and how a file is replaced."""
import errno
import json
import os
import pathlib
import random
import stat
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[3]
PLACES = [str(ROOT / name) for name in ("base", "bridge", "cli", "record")]
sys.path[:0] = PLACES

import clients  # noqa: E402
import config  # noqa: E402
from clients import Failure  # noqa: E402

ENTRY = {"command": "/p"}
WHOLE = '{\n  "mcpServers": {\n    "sp": {\n      "command": "/p"\n    }\n  }\n}\n'
TABLE = '[mcp_servers.sp]\ncommand = "/p"\n'
EINVAL, EEXIST = errno.EINVAL, errno.EEXIST


def edit(host, text, entry):
    return clients.edit(clients.CLIENTS[host], "sp", entry, text)


class Edits(unittest.TestCase):
    """Of a server named sp."""

    def edited(self, host, text, did, wanted, entry=ENTRY):
        """wanted: the new text, where something is done."""
        found, new = edit(host, text, entry)
        self.assertEqual(found, did, text)
        self.assertEqual(did and new, did and wanted)

    def refused(self, host, text, code, word, entry=ENTRY):
        with self.assertRaises(Failure, msg=text) as refusal:
            edit(host, text, entry)
        self.assertEqual(refusal.exception.code, code, text)
        self.assertIn(word, refusal.exception.text)

    def test_a_new_json_file_is_whole(self):
        self.edited('cursor', '', 'added', WHOLE)
        self.edited('cursor', ' \n', 'added', WHOLE)
        self.edited('cursor', WHOLE, None, '')

    def test_other_content_of_a_json_file_stays(self):
        self.edited('cursor', '{}', 'added', '{\n  "mcpServers": {\n    "sp": {\n      "command": "/p"\n    }\n  }\n}')
        self.edited('cursor', '{"a":1.50,"b":"\\u00e4"}\n', 'added', '{"a":1.50,"b":"\\u00e4",\n  "mcpServers": {\n    "sp": {\n      "command": "/p"\n    }\n  }\n}\n')
        self.edited('cursor', '{\n\t"mcpServers": {\n\t\t"x": {"k": [1, {}]}\n\t},\n\t"z": 0\n}\n', 'added', '{\n\t"mcpServers": {\n\t\t"x": {"k": [1, {}]},\n\t\t"sp": {\n\t\t\t"command": "/p"\n\t\t}\n\t},\n\t"z": 0\n}\n')
        self.edited('cursor', '{\r\n    "mcpServers": {}\r\n}\r\n', 'added', '{\r\n    "mcpServers": {\r\n        "sp": {\r\n            "command": "/p"\r\n        }\r\n    }\r\n}\r\n')

    def test_comments_and_last_commas_stay(self):
        self.edited('zed', '// mine: {\n{\n  "a": "//", // one\n  /* "context_servers": {}, */\n  "context_servers": {\n    // none yet\n  }, // two\n}\n', 'added', '// mine: {\n{\n  "a": "//", // one\n  /* "context_servers": {}, */\n  "context_servers": {\n    // none yet\n    "sp": {\n      "command": "/p"\n    }\n  }, // two\n}\n')
        self.edited('zed', '{\n  "a": [1, 2,], // last\n}', 'added', '{\n  "a": [1, 2,], // last\n  "context_servers": {\n    "sp": {\n      "command": "/p"\n    }\n  }\n}')
        self.edited('zed', '{\n  "a": "\\"}" // last, one\n}', 'added', '{\n  "a": "\\"}", // last, one\n  "context_servers": {\n    "sp": {\n      "command": "/p"\n    }\n  }\n}')
        self.edited('zed', '\ufeff{}', 'added', '\ufeff{\n  "context_servers": {\n    "sp": {\n      "command": "/p"\n    }\n  }\n}')

    def test_another_entry_of_the_name_is_replaced(self):
        self.edited('cursor', '{"mcpServers": {"a": 1, "s\\u0070": {"command": "/old"}, "b": 2}}', 'replaced', '{"mcpServers": {"a": 1, "s\\u0070": {\n      "command": "/p"\n    }, "b": 2}}')

    def test_invalid_json_is_refused(self):
        self.refused('cursor', '{\n"a": }', EINVAL, 'line 2')
        self.refused('cursor', '{"a": 1 /* no end }', EINVAL, 'line 1')
        self.refused('cursor', '{"a": 1, "a": 2}', EINVAL, 'duplicate')
        self.refused('cursor', '[]', EINVAL, 'not a JSON object')
        self.refused('cursor', '{"mcpServers": []}', EINVAL, '"mcpServers" is not an object')
        self.refused('cursor', '{,}', EINVAL, 'line 1')

    def test_a_table_is_added_to_toml(self):
        self.edited('codex', '', 'added', TABLE)
        self.edited('codex', 'a = 1', 'added', 'a = 1\n\n[mcp_servers.sp]\ncommand = "/p"\n')
        self.edited('codex', '# [mcp_servers.sp]\nmodel = "x"\n\n[mcp_servers]\n[mcp_servers.other]\nargs = ["[mcp_servers.sp]", # ]\n  \'\'\'\n[mcp_servers.sp]\n\'\'\']\n[projects."/a\\\\b"]\ntrust = { level = "]", n = [1] }\n[[list]]\nd = 1979-05-27\n', 'added', '# [mcp_servers.sp]\nmodel = "x"\n\n[mcp_servers]\n[mcp_servers.other]\nargs = ["[mcp_servers.sp]", # ]\n  \'\'\'\n[mcp_servers.sp]\n\'\'\']\n[projects."/a\\\\b"]\ntrust = { level = "]", n = [1] }\n[[list]]\nd = 1979-05-27\n\n[mcp_servers.sp]\ncommand = "/p"\n')
        self.edited('codex', 'a = """x"""""\n', 'added', 'a = """x"""""\n\n[mcp_servers.sp]\ncommand = "/p"\n')
        self.edited('codex', 'a = """say ""\n[mcp_servers.sp]\n\\""""\n', 'added', 'a = """say ""\n[mcp_servers.sp]\n\\""""\n\n[mcp_servers.sp]\ncommand = "/p"\n')
        self.edited('codex', 'x = 1\r\n[mcp_servers.sp]\ncommand = "/p"\nmore = 1\n[z]\n', None, '')
        self.edited('codex', '\ufeff[mcp_servers.sp]\ncommand = "/p"\n', None, '')

    def test_a_table_of_the_name_is_replaced(self):
        self.edited('codex', '[mcp_servers.sp]\ncommand = "/q"', 'replaced', TABLE)
        self.edited('codex', 'a = 1\n [ mcp_servers . "sp" ] # mine\n# old\ncommand = [\n]\n\n# next\n[mcp_servers.sp.env]\nA = "1"\n', 'replaced', 'a = 1\n[mcp_servers.sp]\ncommand = "/p"\n\n# next\n[mcp_servers.sp.env]\nA = "1"\n')

    def test_a_name_that_toml_defines_in_another_form_is_refused(self):
        self.refused('codex', '[mcp_servers.sp]\n[mcp_servers.sp]\n', EEXIST, 'another')
        self.refused('codex', '[[mcp_servers.sp]]\n', EEXIST, 'another')
        self.refused('codex', '[mcp_servers.sp]\n[mcp_servers]\nsp.a = 1\n', EEXIST, 'another')
        self.refused('codex', '[mcp_servers.sp.env]\nA = "1"\n', EEXIST, 'another')
        self.refused('codex', '[mcp_servers]\nsp = {}\n', EEXIST, 'another')
        self.refused('codex', 'mcp_servers.\'sp\'.command = "q"\n', EEXIST, 'another')
        self.refused('codex', '[mcp_servers]\n"\\u0073p" = {}\n', EEXIST, 'another')
        self.refused('codex', 'mcp_servers = {}\n', EINVAL, 'not a table')
        self.refused('codex', '[[mcp_servers]]\n', EINVAL, 'not a table')
        self.refused('codex', '"mcp\\u005fservers".sp = {}\n', EINVAL, 'not a table')

    def test_invalid_toml_is_refused(self):
        self.refused('codex', 'a = 1\nb\n', EINVAL, 'line 2')
        self.refused('codex', 'a = "no end\n', EINVAL, 'line 1')
        self.refused('codex', 'a = [1\n', EINVAL, 'line 1')
        self.refused('codex', 'a = 1]\n', EINVAL, 'line 1')
        self.refused('codex', '\n\n[a\n', EINVAL, 'line 3')
        self.refused('codex', 'a =\n', EINVAL, 'line 1')
        self.refused('codex', 'a = "x" y\n= 1\n', EINVAL, 'line 1')
        self.refused('codex', 'a = [1] [mcp_servers.sp]\n', EINVAL, 'line 1')

    def test_only_the_entry_is_removed_from_json(self):
        self.edited('cursor', '', None, '', None)
        self.edited('cursor', '{"sp": 1}', None, '', None)
        self.edited('cursor', '{"mcpServers": {"sp": {}}}', 'removed', '{"mcpServers": {}}', None)
        self.edited('cursor', '{"mcpServers": {"sp": {}, "a": 1}}', 'removed', '{"mcpServers": { "a": 1}}', None)
        self.edited('cursor', '{"mcpServers": {"a": 1, /* , */ "sp": {}}}', 'removed', '{"mcpServers": {"a": 1 /* , */ }}', None)
        self.edited('zed', '{\r\n  "context_servers": {\r\n    "a": {},\r\n    "sp": {\r\n      "b": [1]\r\n    }\r\n  } // mine\r\n}', 'removed', '{\r\n  "context_servers": {\r\n    "a": {}\r\n  } // mine\r\n}', None)
        self.edited('zed', '{\n  "context_servers": {\n    // all\n    "sp": {}, // it\n    "a": {},\n  },\n}\n', 'removed', '{\n  "context_servers": {\n    // all\n     // it\n    "a": {},\n  },\n}\n', None)
        self.refused('cursor', '{"mcpServers": 1}', EINVAL, '', None)
        self.refused('cursor', '{"mcpServers": ', EINVAL, '', None)

    def test_only_the_table_is_removed_from_toml(self):
        self.edited('codex', '', None, '', None)
        self.edited('codex', '[mcp_servers.a]\nb = 1\n', None, '', None)
        self.edited('codex', 'x = 1 # y\n[mcp_servers.sp]\nb = 1\n# next\n[mcp_servers.a]\nb = 1\n', 'removed', 'x = 1 # y\n# next\n[mcp_servers.a]\nb = 1\n', None)
        self.edited('codex', '[mcp_servers.sp]\nb = 1\n[mcp_servers.sp.env]\nc = 1\n', 'removed', '', None)
        self.edited('codex', '[mcp_servers.sp.env]\nc = 1\n[mcp_servers.sp]\nb = 1\n', 'removed', '', None)
        self.refused('codex', '[mcp_servers]\nsp = {}\n', EEXIST, '', None)
        self.refused('codex', 'mcp_servers.sp.command = 1\n', EEXIST, '', None)

    def test_json_is_refused_with_the_place(self):
        for text, why in (('{"a": 1', "line 1: '}' expected near end of file"), ('{\n"a" 1}', "line 2: ':' expected near '1'"),
                          ('{"a": "b\\x"}', "line 1: invalid escape near '\"b\\x'"), ('{"a": "b\n"}', "line 1: unexpected newline near '\"b'"),
                          ('{"a": "\udce4"}', "line 1: unable to decode byte 0xe4 near '\"'"), ('{"a": "\\ud800"}', "invalid Unicode"),
                          ('{"a": 01}', "line 1: invalid token near '01'"), ('{"a": 1}\n}', "line 2: end of file expected near '}'"),
                          ("{'a': 1}", "line 1: string or '}' expected near '''"), ("null", "line 1: '[' or '{' expected near 'null'"),
                          ('{"a": "\t"}', "line 1: control character 0x9 near '\"'"), ('{"a": ' + "[" * 9999, "maximum parsing depth reached")):
            self.refused("cursor", text, EINVAL, why)

    def test_numbers_and_signs_of_an_entry_stay(self):
        old = '"env": {"a": [1.50, -0, 1e+9, 99999999999999999999, true, null], "b": "\\u001b\\/ä\\ud83d\\ude00"}'
        new = '"env": {\n        "a": [\n          1.50,\n          -0,\n          1e+9,\n          99999999999999999999,\n' \
            '          true,\n          null\n        ],\n        "b": "\\u001B/ä😀"\n      }'
        self.edited("cursor", f'{{"mcpServers": {{"sp": {{"command": "/q", {old}}}}}}}', "replaced",
                    f'{{"mcpServers": {{"sp": {{\n      "command": "/p",\n      {new}\n    }}}}}}')

    def test_each_client_gets_its_format(self):
        command = '"command": "/bin/sp", "args": ["--memory", "2G"]'
        for host, wanted in (
                ("claude-code", '{"type": "stdio", %s}' % command), ("claude-desktop", "{%s}" % command),
                ("codex", '{%s, "tool_timeout_sec": 630}' % command), ("copilot", '{"type": "local", %s, "tools": ["*"]}' % command),
                ("cursor", '{"type": "stdio", %s}' % command), ("gemini", '{%s, "timeout": 630000}' % command),
                ("opencode", '{"type": "local", "command": ["/bin/sp", "--memory", "2G"], "enabled": true}'),
                ("vscode", '{"type": "stdio", %s}' % command), ("zed", '{%s, "source": "custom"}' % command)):
            entry = clients.make_entry(clients.CLIENTS[host], "/bin/sp", ["--memory", "2G"], 600000)
            self.assertEqual(clients.written(entry, " ", "").replace("{ ", "{").replace("[ ", "[").replace(" ]", "]").replace(" }", "}"), wanted)

    def test_toml_strings_are_escaped(self):
        self.edited("codex", "", "added", '[mcp_servers.sp]\nargs = ["a\\"\\\\\\n", "\\u007F"]\nn = 3\n',
                    {"args": ['a"\\\n', "\x7f"], "n": ("3",)})

    def test_texts_of_all_kinds_become_the_same_as_ever(self):
        """Rows of golden/config.jsonl: client, text, text with the server "sandbox", text without it. "=": the text itself;
        "! ": why not. The rows are what the first version of these edits has made, which was written in C."""
        for number, row in enumerate((ROOT / "tests/golden/config.jsonl").read_text().splitlines(), 1):
            host, text, *wanted = json.loads(row)
            for entry, result in zip((clients.make_entry(clients.CLIENTS[host], "/bin/sp", [], 3600000), None), wanted):
                try:
                    did, found = clients.edit(clients.CLIENTS[host], "sandbox", entry, text)
                    found = found if did else "="
                except Failure as failure:
                    found = "! " + "".join(one if one.isprintable() else ascii(one)[1:-1] for one in failure.text)
                self.assertEqual(found, result, f"config.jsonl:{number}")

    def test_any_file_can_be_edited_and_edited_again(self):
        """What was added is there and can be removed, and nothing else is lost."""
        seeds = [(one.read_bytes()[:1], one.read_bytes()[1:].decode(errors="surrogateescape")) for one in (ROOT / "tests/corpus/edit").iterdir()]
        chance = random.Random(int(os.environ.get("SANDPIPER_TEST_SEED", "1")))
        signs = [*"{}[]\",:\\/*#=. \n\r\t'a0", "//", "/*", "*/", '"""', "\\u0041", "\ufeff", "\udce4", "\0"]
        for _ in range(3000):
            kind, text = chance.choice(seeds)
            for _ in range(chance.randrange(4)):
                at, end = sorted(chance.choices(range(len(text) + 1), k=2))
                text = text[:at] + chance.choice(("", text[at:end] * 2, chance.choice(signs))) + text[chance.choice((at, min(at + 1, end), end)):]
            with self.subTest(text):
                self.edit_again("codex" if kind[0] % 2 else "zed", text)

    def edit_again(self, host, text):
        entry = {"command": "/p", "args": ["-x"]}
        try:
            did, once = edit(host, text, entry)
        except Failure as failure:
            self.assertTrue(failure.text)
            return
        if did is None:
            return
        if did == "added":
            self.assertGreaterEqual(len("".join(once.split())), len("".join(text.split())))
        self.assertEqual(edit(host, once, entry), (None, once))
        try:
            removed, without = edit(host, once, None)
        except Failure as failure:  # a table within a replaced one may have a header of its own
            self.assertEqual((did, failure.code), ("replaced", EEXIST))
            return
        self.assertEqual(removed, "removed")
        self.assertEqual(edit(host, without, None), (None, without))


class Imports(unittest.TestCase):
    def test_debians_python3_minimal_suffices(self):
        python = "/usr/bin/python3"
        code = "import sys; sys.path[:0] = sys.argv[1:]; import config; " \
            "print(*{getattr(one, '__file__', None) for one in sys.modules.values()} - {None}, sep='\\n')"
        try:
            done = subprocess.run([python, "-I", "-S", "-E", "-B", "-c", code, *PLACES], capture_output=True, text=True, check=True)
            minor = subprocess.check_output([python, "-c", "import sys; print(sys.version_info[1])"], text=True).strip()
            files = subprocess.check_output(["dpkg", "-L", f"libpython3.{minor}-minimal"], text=True, stderr=subprocess.DEVNULL)
        except (OSError, subprocess.CalledProcessError) as error:
            self.skipTest(f"python: not Debian's ({error})")
        self.assertIn(f"/usr/lib/python3.{minor}/subprocess.py", done.stdout.split())
        self.assertEqual(sorted(set(done.stdout.split()) - set(files.split())),
                         [str(ROOT / name) for name in ("base/json_text.py", "bridge/clients.py", "cli/config.py", "record/visible.py")])


class Files(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory(prefix="sp-replace-")
        self.addCleanup(directory.cleanup)
        self.top = pathlib.Path(directory.name)

    def file(self, name, text="old", mode=0o600):
        path = self.top / name
        path.write_text(text)
        path.chmod(mode)
        return path

    def replace(self, name, text="new", meanwhile=lambda: None):
        def edit(old):
            meanwhile()
            return "replaced", text
        return config.change(str(self.top / name), edit)

    def refused(self, name, code, **more):
        with self.assertRaises(Failure) as failure:
            self.replace(name, **more)
        self.assertEqual(failure.exception.code, code, failure.exception.text)

    def names(self):
        return sorted(str(path.relative_to(self.top)) for path in self.top.rglob("*"))

    def test_directories_that_are_missing_are_made(self):
        self.assertEqual(self.replace("a/b/c"), (str(self.top / "a/b/c"), "replaced", None))
        self.assertEqual((self.top / "a/b/c").read_text(), "new")
        self.assertEqual(stat.S_IMODE((self.top / "a/b/c").stat().st_mode), 0o600)
        self.assertEqual(self.names(), ["a", "a/b", "a/b/c"])

    def test_attributes_stay(self):
        path = self.file("f")
        try:
            os.setxattr(path, "user.note", b"mine")
        except OSError as error:
            self.skipTest(f"attributes: {error}")
        _, _, backup = self.replace("f")
        for one in (path, backup):
            self.assertEqual(os.getxattr(one, "user.note"), b"mine")

    def test_what_was_there_is_kept_with_its_mode(self):
        path, bak = self.file("f", mode=0o644), self.file("f.bak", "of the user")
        self.replace("f", "newer")
        self.assertEqual((self.top / "f.before-sandpiper").read_text(), "old")
        self.replace("f", "newest")
        self.assertEqual([one.read_text() for one in (path, self.top / "f.before-sandpiper", bak)], ["newest", "newer", "of the user"])
        self.assertEqual([stat.S_IMODE(one.stat().st_mode) for one in (path, self.top / "f.before-sandpiper")], [0o644, 0o644])

    def test_the_owner_of_a_file_that_root_replaces_stays(self):
        try:
            os.chown(self.file("f"), 12345, 12345)
        except OSError:
            self.skipTest("root: files cannot be given away here")
        _, _, backup = self.replace("f")
        self.assertEqual([os.stat(one).st_uid for one in (self.top / "f", backup)], [12345, 12345])

    def test_a_file_changed_by_another_program_is_left(self):
        path = self.file("f")
        for name in ("f", "d/g"):
            self.refused(name, errno.EBUSY, meanwhile=lambda: (self.top / name).write_text("another's"))
            self.assertEqual((self.top / name).read_text(), "another's")
        self.refused("f", errno.EBUSY, meanwhile=path.unlink)
        self.assertEqual(self.names(), ["d", "d/g"])

    def test_symlinks_are_followed_and_other_kinds_of_file_refused(self):
        real = self.file("real")
        for name, target in (("link", "real"), ("dangling", "nowhere")):
            (self.top / name).symlink_to(target)
        os.mkfifo(self.top / "fifo")
        (self.top / "directory").mkdir()
        self.assertEqual(self.replace("link")[0], str(real))
        self.assertTrue((self.top / "link").is_symlink())
        self.assertEqual(real.read_text(), "new")
        for name, code in (("dangling", errno.ENOENT), ("fifo", EINVAL), ("directory", EINVAL), ("real/x", errno.ENOTDIR)):
            self.refused(name, code)

    def test_files_that_a_new_one_cannot_stand_for_are_refused(self):
        path = self.file("f", mode=0o444)
        self.refused("f", errno.EACCES)
        self.assertEqual((path.read_text(), self.names()), ("old", ["f"]))
        if os.geteuid():
            self.refused("/etc/passwd", errno.EPERM)

    def test_a_file_in_the_way_is_left(self):
        names = [f"f.new-{os.getpid()}", "f"]
        for name in names:
            self.file(name)
        self.refused("f", EEXIST)
        self.assertEqual(([(self.top / name).read_text() for name in names], self.names()), (["old", "old"], sorted(names)))

    def test_a_backup_that_cannot_be_written_stops_it(self):
        path = self.file("f")
        (self.top / "f.before-sandpiper").mkdir()
        self.refused("f", EEXIST)
        self.assertEqual((path.read_text(), self.names()), ("old", ["f", "f.before-sandpiper"]))


if __name__ == "__main__":
    unittest.main()
