"""A server that records, and the record that it makes."""
import hashlib
import json
import pathlib
import tempfile

from client import Case, Server, run_cli


class Record(Case):
    def setUp(self):
        super().setUp()
        directory = tempfile.TemporaryDirectory(prefix="sp-record-")
        self.addCleanup(directory.cleanup)
        self.place = pathlib.Path(directory.name)
        self.records = self.place / "records"

    def server(self, *args, **options):
        return Server("--record", str(self.records), *args, **options)

    def path(self):
        """The newest record."""
        return sorted(self.records.iterdir())[-1]

    def events(self, kind=None):
        """All events of the newest record, whose chain is checked."""
        prev, found = "0" * 64, []
        for number, line in enumerate(self.path().read_bytes().splitlines()):
            event = json.loads(line)
            self.assertEqual((event["v"], event["seq"], event["prev"]), (1, number, prev))
            prev = hashlib.sha256(line).hexdigest()
            found.append(event)
        return [event for event in found if kind in (None, event["kind"])]

    def command(self, *args, status=0, **options):
        done = run_cli("record", *map(str, args), **options)
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        return done.stdout.decode()

    def forge(self, *events, start=()):
        """A record with a whole chain, as somebody else would make one. Each event: kind, members."""
        prev, lines = "0" * 64, []
        first = {"version": "9", "host": "h", "isolation": "full", "python": "", "settings": [], **dict(start)}
        for seq, (kind, members) in enumerate((("start", first), *events, ("end", {"why": "x"}))):
            line = json.dumps({"v": 1, "seq": seq, "time": "2026-11-22T10:15:02.123Z", "kind": kind, "prev": prev,
                               **members}).encode()
            prev = hashlib.sha256(line).hexdigest()
            lines.append(line)
        path = self.place / "forged.jsonl"
        path.write_bytes(b"\n".join(lines) + b"\n")
        return path

    def forge_cells(self, *codes, start=(), **result):
        """A record in which each code printed nothing."""
        events = []
        for number, code in enumerate(codes, 1):
            of = {"call": number, "session": "default", "cell": number}
            events += [("cell", {**of, "code": code, "arguments": {}}),
                       ("result", {**of, "outcome": "ok", "state": "kept", "is_error": False, "status": "[ok]", **result})]
        return self.forge(*events, start=start)
