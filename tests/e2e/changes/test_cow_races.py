"""Code, and a program of the user's, that change files while changes are applied."""
import contextlib
import ctypes
import os
import shutil
import threading
import time
import unittest

from client import once
from projects import Project, tree

HOT_BYTES = 300_000
RACE = """import contextlib, os, random, shutil, threading, time
os.makedirs('d', exist_ok=True); open('d/raced.txt', 'w').write('by code')
fd = os.open('hot', os.O_CREAT | os.O_RDWR); os.pwrite(fd, b'0' * {bytes}, 0)
def rewrite(i):
    os.pwrite(fd, b'%d' % (i % 10) * {bytes}, 0); time.sleep(random.random() / 50)
def swap(i):
    os.rename('d', 'kept'); os.symlink({outside!r}, 'd'); time.sleep(random.random() / 300)
    os.remove('d'); os.rename('kept', 'd'); time.sleep(random.random() / 300)
def retype(i):
    for make in (lambda: open('t', 'w').write('x'), lambda: os.mkdir('t'), lambda: os.mkfifo('t'), lambda: os.symlink({outside!r}, 't')):
        make(); time.sleep(random.random() / 500)
        os.rmdir('t') if os.path.isdir('t') and not os.path.islink('t') else os.remove('t')
def repeat(f):
    i = 0
    while not os.path.exists('/tmp/stop'):
        with contextlib.suppress(OSError): f(i)  # what is applied changes the layer below
        i += 1
threads = [threading.Thread(target=repeat, args=(f,)) for f in (rewrite, swap, retype)]
for t in threads: t.start()
for t in threads: t.join()
print('end')
"""


def exchange(one, other):
    """Two names change places at once, renameat2(2)."""
    if ctypes.CDLL(None).renameat2(-100, os.fsencode(one), -100, os.fsencode(other), 2):
        raise OSError


class Races(Project):
    def test_code_that_changes_files_while_they_are_applied(self):
        outside = tree(self.outside, exact=True)
        with self.server("--wait", "25") as server:
            result = server.python(RACE.format(bytes=HOT_BYTES, outside=str(self.outside)), session="racer", wait_s=0, timeout_s=300)
            self.assertIn("running: job", result.text)
            for turn in range(40):
                server.call("apply_changes", _timeout=120)
                with contextlib.suppress(FileNotFoundError):
                    hot = (self.dir / "hot").read_bytes()
                    # Empty: as it was before the job's first write.
                    self.assertIn((len(hot), len(set(hot))), ((HOT_BYTES, 1), (0, 0)), f"turn {turn}: applied in part")
                self.assertLessEqual(set(os.listdir(self.dir)), {"hot", "d", "kept", "t"})
                if turn % 8 == 0:
                    server.call("list_changes", _timeout=120, diff=turn % 16 == 0)
            self.assert_ok(server.python("open('/tmp/stop', 'w').close()", session="stopper"))
            self.assert_prints(server.call("run_python", job=1, wait_s=20), "end")
            self.assert_tree(tree(self.outside, exact=True), outside)
            self.apply(server)
            if self.changes(server).number:  # a symlink may have been applied where the directory is
                self.discard(server)
            self.assertEqual(self.changes(server), {})
            self.assert_prints(server.python("import hashlib; print(hashlib.sha256(open('hot', 'rb').read()).hexdigest())"),
                               tree(self.dir)[b"hot"][2])
        self.assert_tree(tree(self.outside, exact=True), outside)

    def test_the_directory_is_replaced_by_a_symlink_while_it_is_applied(self):
        for i in range(100):
            self.put(f"swapped/deep/{i}", "old")
        stopped = threading.Event()

        def swap():
            while not stopped.is_set():
                exchange(self.dir / "swapped", self.dir / "aside")
                time.sleep(0.0005)
                exchange(self.dir / "swapped", self.dir / "aside")
                time.sleep(0.001)

        (self.dir / "aside").symlink_to(self.outside)
        (self.outside / "deep").mkdir()
        (self.outside / "deep/1").write_text("outside")
        outside = tree(self.outside, exact=True)
        with self.server() as server:
            self.assert_ok(server.python("import os\nfor i in range(100): open(f'swapped/deep/{i}', 'w').write('new')\n"
                                         "for i in range(100, 300): open(f'swapped/deep/{i}', 'w').write('new')"))
            thread = threading.Thread(target=swap)
            thread.start()
            try:
                for _ in range(8):
                    server.call("apply_changes", _timeout=120)
            finally:
                stopped.set()
                thread.join()
            self.assert_tree(tree(self.outside, exact=True), outside)
            self.assertEqual(set(os.listdir(self.dir)), {"swapped", "aside"})
            self.apply(server)
        self.assert_tree(tree(self.outside, exact=True), outside)
        for path in (self.dir / "swapped/deep").iterdir():
            self.assertIn(path.read_text(), ("old", "new"), path.name)

    def test_calls_sent_at_once(self):
        with self.server() as server:
            with server.at_once():
                calls = [server.start_call("run_python", code=f"open('f{i}', 'w').write('x')") if i % 2 == 0 else
                         server.start_call("apply_changes") for i in range(20)]
            results = [server.finish_call(call) for call in calls]
            for i, result in enumerate(results):
                self.assertFalse(result.is_error, result.text)
                if i % 2:
                    self.assertTrue(result.text.startswith("applied 1 of 1"), result.text)
        self.assertEqual(len(tree(self.dir)), 10)


if __name__ == "__main__":
    unittest.main()
