"""Locks on files come back with the state, and a connection of SQLite works, or is named and fails.

`look` asks whether another process could lock what the session should hold, or could not what it should not.
"""
import shutil
import tempfile
import unittest

from client import CONTAINER, Case, Server, give_away, once
from seen import sees_writes

DIE = "\nimport os; os.kill(os.getpid(), 9)"
NO_MEMORY = "\nx = []\nwhile True: x.append(bytearray(1 << 24))"
STUCK = "\nimport signal; signal.signal(signal.SIGINT, signal.SIG_IGN)\nwhile True: pass"
# How a state comes back: what a call that is to be taken back adds to its code, and how the next one is sent.
WAYS = {"crash": (DIE, {}), "memory": (NO_MEMORY, {}), "limit": (STUCK, {}), "undo": ("", {"undo": True}), "restore": ("", {"restore": "kept"})}
FREE = "import fcntl\ntry: {}(open({!r}, 'r+'), fcntl.LOCK_EX | fcntl.LOCK_NB); print('free')\nexcept OSError: print('held')"
SUM = "import sqlite3; c = sqlite3.connect({!r}); print(c.execute('select sum(x) from t').fetchall(), c.execute('pragma integrity_check').fetchall())"
CUT = "{}: connections to it from before this call have lost their locks or files and are closed; close any that is held elsewhere, then connect again"


class Lost(Case):
    def go_back(self, server, before, dying, way, code):
        """The result of code, in the state that before has made."""
        suffix, how = WAYS[way]
        self.assert_ok(server.python(before, reset=True, checkpoint="kept"))
        limit = {"timeout_s": 1} if way == "limit" else {}
        self.assertEqual(server.python(dying + suffix, **limit).is_error, bool(suffix))
        return server.python(code, timeout_s=60, **how)

    def look(self, server, how, path, expected):
        self.assert_prints(server.python(FREE.format("fcntl." + how, path), fresh=True), expected)


class Files(Lost):
    def test_a_lock_is_taken_again(self):
        with Server("--memory", "256M") as server:
            for way in WAYS:
                for how in ("lockf",) if CONTAINER else ("lockf", "flock"):
                    with self.subTest(way, how=how):
                        result = self.go_back(server, f"import fcntl; f = open('l', 'w'); g = open('l'); fcntl.{how}(f, fcntl.LOCK_EX)",
                                              f"f.write('x'); f.flush(); fcntl.{how}(f, fcntl.LOCK_UN)", way, "1")
                        self.assertNotIn("another has", result.text)
                        self.look(server, how, "l", "held")
                        self.assert_ok(server.python("f.close(); g.close()"))
                        self.look(server, how, "l", "free")

    def test_a_part_of_a_file(self):
        with Server() as server:
            self.go_back(server, "import fcntl, struct; f = open('l', 'w+'); fcntl.lockf(f, fcntl.LOCK_SH, 5, 10); fcntl.lockf(f, fcntl.LOCK_EX, 0, 100)",
                         "1", "crash", "1")
            self.assert_prints(server.python(
                "import fcntl, struct\nf = open('l', 'r+')\nfor start in 0, 10, 15, 100:\n"
                "    found = fcntl.fcntl(f, fcntl.F_GETLK, struct.pack('hh4xqqi4x', fcntl.F_WRLCK, 0, start, 1, 0))\n"
                "    print(struct.unpack('hh4xqqi4x', found)[0], end=' ')", fresh=True), "2 0 2 1 ")

    def test_what_another_has_by_then_is_named(self):
        with Server() as server:
            self.assert_ok(server.python("import fcntl; f = open('l', 'w'); held = {'f': f}; fcntl.lockf(f, fcntl.LOCK_EX)"))
            self.assert_ok(server.python("fcntl.lockf(f, fcntl.LOCK_UN)"))
            self.assert_ok(server.python("import fcntl; f = open('l', 'w'); fcntl.lockf(f, fcntl.LOCK_EX)", session="other"))
            result = server.python("f.write('1')", undo=True)
            self.assertIn("f (TextIOWrapper), held (dict): another has the lock on l now", result.status.line)
            self.assertNotIn("another", server.python("1").status.line)

    def test_a_branch_has_none_of_the_sessions(self):
        with Server() as server:
            self.assert_ok(server.python("import fcntl; f = open('l', 'w'); g = open('m', 'w+'); fcntl.lockf(f, fcntl.LOCK_EX); fcntl.lockf(g, fcntl.LOCK_SH)"))
            line = server.python("1", branch=True).status.line
            self.assertIn("f (TextIOWrapper): another has the lock on l now", line)
            self.assertNotIn("lock on m", line)
            self.look(server, "lockf", "l", "held")


class Databases(Lost):
    flags, goes_back = (), True  # whether an undo takes the database back

    def connect(self, mode, before=""):
        return ("import sqlite3, glob, os\nfor name in glob.glob('a.db*'): os.unlink(name)\n"
                f"db = sqlite3.connect('a.db', isolation_level=None, timeout=0.1); _ = db.execute('pragma journal_mode={mode}')\n"
                f"_ = db.execute('create table t(x)'); _ = db.execute('insert into t values(1)')\n{before}")

    def works(self, server, result, total):
        self.assertNotIn("connections", result.text)
        self.assert_prints(result, f"[({total},)]")
        self.assert_ok(server.python("_ = db.execute('insert into t values(100)'); _ = db.execute('commit') if db.in_transaction else 0"))
        self.assert_prints(server.python(SUM.format("a.db"), fresh=True), f"[({total + 100},)] [('ok',)]")

    READ = "print(db.execute('select sum(x) from t').fetchall())"
    FAIL = "for query in 'select sum(x) from t', 'insert into t values(1000)', 'commit', 'begin immediate':\n" \
           "    try: _ = db.execute(query).fetchall(); print('wrong', query)\n    except sqlite3.Error as e: print(end='-')"

    def fails(self, server, result, total):
        self.assert_prints(result, "----")
        self.assertIn("db (sqlite3.Connection): " + CUT.format("a.db"), result.status.line)
        again = server.python("try: db.close()\nexcept sqlite3.Error: pass\ndb = sqlite3.connect('a.db'); _ = db.execute('insert into t values(100)'); db.commit()")
        self.assert_ok(again)
        self.assertNotIn("connections", again.text)
        self.assert_prints(server.python(SUM.format("a.db"), fresh=True), f"[({total + 100},)] [('ok',)]")

    def play(self, way, mode, before, dying, total, works):
        with self.subTest(way, mode=mode, before=before, dying=dying), Server("--memory", "256M", *self.flags) as server:
            result = self.go_back(server, self.connect(mode, before), dying, way, self.READ if works else self.FAIL)
            (self.works if works else self.fails)(server, result, total)

    ADD = "_ = db.execute('insert into t values(10)')"

    def test_between_transactions(self):
        for way in WAYS:
            for mode in "delete", "wal", "truncate":
                back = self.goes_back and way in ("undo", "restore")  # so that the files are others
                self.play(way, mode, "", self.ADD, 1 if back else 11, not back)

    def test_nothing_was_changed(self):
        for way in WAYS:
            for mode in "delete", "wal":
                self.play(way, mode, "", "_ = db.execute('select * from t').fetchall()", 1, True)

    def test_in_a_transaction(self):
        """What it has written comes back as long as nothing else was written since."""
        for way in "crash", "undo":
            for mode in "delete", "wal":
                self.play(way, mode, "_ = db.execute('begin immediate'); _ = db.execute('insert into t values(2)')", "x = 1", 3, True)

    def test_a_transaction_that_has_ended_since(self):
        for way in "crash", "undo":
            for mode in "delete", "wal":
                self.play(way, mode, "_ = db.execute('begin immediate'); _ = db.execute('insert into t values(2)')", "_ = db.execute('commit')",
                          3 if way == "crash" or not self.goes_back else 1, False)
                self.play(way, mode, "_ = db.execute('begin immediate'); _ = db.execute('insert into t values(2)')",
                          "_ = db.execute('rollback'); " + self.ADD, 11 if way == "crash" or not self.goes_back else 1, False)

    def test_a_connection_that_was_closed_since(self):
        for way in "crash", "undo":
            self.play(way, "wal", "", "db.close()", 1, False)
            self.play(way, "delete", "", "db.close()", 1, True)

    def test_another_session_has_taken_the_place(self):
        """Never two writers: a transaction that another has begun meanwhile keeps this one out."""
        for mode in "delete", "wal":
            with self.subTest(mode), Server(*self.flags) as server:
                self.assert_ok(server.python(self.connect(mode, "_ = db.execute('begin immediate'); _ = db.execute('insert into t values(2)')")))
                self.assert_ok(server.python("_ = db.execute('rollback')"))
                self.assert_ok(server.python("import sqlite3; db = sqlite3.connect('a.db', isolation_level=None); _ = db.execute('begin immediate')\n"
                                             "_ = db.execute('insert into t values(10)')", session="other"))
                result = server.python(self.FAIL, undo=True)
                self.assert_prints(result, "----")
                self.assertIn(CUT.format("a.db"), result.status.line)
                self.assert_ok(server.python("_ = db.execute('commit')", session="other"))
                self.assert_prints(server.python(SUM.format("a.db"), fresh=True), "[(11,)] [('ok',)]")

    def test_another_session_writes_meanwhile(self):
        for mode in "delete", "wal":
            with self.subTest(mode), Server(*self.flags) as server:
                self.assert_ok(server.python(self.connect(mode)))
                server.python(DIE)
                self.assert_prints(server.python(
                    "import sqlite3; db = sqlite3.connect('a.db', isolation_level=None); _ = db.execute('insert into t values(10)')\n" + self.READ,
                    session="other"), "[(11,)]")
                self.assert_prints(server.python("_ = db.execute('begin immediate'); _ = db.execute('insert into t values(100)')\n" + self.READ), "[(111,)]")
                self.assert_prints(server.python("try: db.execute('insert into t values(5)')\nexcept sqlite3.OperationalError as e: print(e)",
                                                 session="other", timeout_s=60), "database is locked")
                self.assert_ok(server.python("_ = db.execute('commit')"))
                self.assert_prints(server.python(SUM.format("a.db"), fresh=True), "[(111,)] [('ok',)]")

    def test_another_session_comes_and_goes_meanwhile(self):
        """It is neither the first that has opened the log, which clears the memory that all share, nor the last, which removes both."""
        for way in "crash", "undo":
            with self.subTest(way), Server(*self.flags) as server:
                self.go_back(server, self.connect("wal"), "x = 1", way, "1")
                self.assert_ok(server.python("_ = db.execute('begin immediate'); _ = db.execute('insert into t values(100)')"))
                for _ in range(2):
                    self.assert_prints(server.python("import sqlite3; c = sqlite3.connect('a.db')\nprint(c.execute('select sum(x) from t').fetchall()); c.close()",
                                                     session="other", timeout_s=60), "[(1,)]")
                self.assert_prints(server.python(self.READ + "; _ = db.execute('commit')"), "[(101,)]")
                self.assert_prints(server.python(SUM.format("a.db"), fresh=True), "[(101,)] [('ok',)]")

    def test_a_branch(self):
        for mode in "delete", "wal":
            with self.subTest(mode), Server(*self.flags) as server:
                self.assert_ok(server.python(self.connect(mode)))
                self.assert_prints(server.python(self.ADD + "; " + self.READ, branch=True), "[(11,)]")
                self.assert_prints(server.python(self.READ), "[(11,)]")
                self.assert_ok(server.python("_ = db.execute('begin immediate'); _ = db.execute('insert into t values(2)')"))
                result = server.python(self.FAIL, branch=True)
                self.assert_prints(result, "----")
                self.assertIn(CUT.format("a.db"), result.status.line)
                self.assertIn("were closed as the session went back or branched", server.python("db.execute('select 1')", branch=True).text)
                self.assert_ok(server.python("_ = db.execute('commit')"))
                self.assert_prints(server.python(SUM.format("a.db"), fresh=True), "[(13,)] [('ok',)]")

    def test_a_connection_that_no_variable_leads_to(self):
        """It is not closed, but writes nothing."""
        with Server(*self.flags) as server:
            hidden = "class Hidden: __slots__ = 'db',\nh = Hidden(); h.db = db; del db\n_ = h.db.execute('begin immediate'), h.db.execute('insert into t values(2)')"
            self.assert_ok(server.python(self.connect("wal", hidden)))
            self.assert_ok(server.python("_ = h.db.execute('commit')"))
            result = server.python("db = h.db\n" + self.FAIL.replace("'select sum(x) from t', 'insert into t values(1000)', ", ""), undo=True)
            self.assert_prints(result, "--")
            self.assertEqual(result.status.line.count(CUT.format("a.db")), 1, result.status.line)
            self.assert_prints(server.python(SUM.format("a.db"), fresh=True), f"[({1 if self.goes_back else 3},)] [('ok',)]")

    def test_only_its_own_connections_are_named(self):
        with Server(*self.flags) as server:
            self.assert_ok(server.python(self.connect("wal") + "other = sqlite3.connect('b.db'); _ = other.execute('create table t(x)'); m = sqlite3.connect(':memory:')"))
            self.assert_ok(server.python("db.close()"))
            line = server.python("other.execute('select * from t').fetchall()", undo=True).status.line
            self.assertIn("db (sqlite3.Connection): " + CUT.format("a.db"), line)
            self.assertNotIn("other", line)
            self.assertIn("connections to a.db were closed", server.python("db.execute('select 1')").text)
            self.assertNotIn("connections", server.python("own = sqlite3.connect('c.db')\nown.close()", reset=True).text)
            self.assertNotIn("were closed", server.python("own.execute('select 1')").text)


@once
class WrittenThrough(Databases):
    """What SQLite writes into a directory of the user's goes back where the keeper is notified of it."""

    def setUp(self):
        self.goes_back = sees_writes()
        workspace = tempfile.mkdtemp(prefix="sp-test-")
        self.addCleanup(shutil.rmtree, workspace)
        give_away(workspace)
        self.flags = "--workspace", workspace


if __name__ == "__main__":
    unittest.main()
