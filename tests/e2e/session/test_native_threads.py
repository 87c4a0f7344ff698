"""Threads that Python does not know, in a state that came back and in a branch: they work again, or a result names them."""
import ctypes.util
import shutil
import unittest

from client import Case, Server

DIE = "import os; os.kill(os.getpid(), 9)"
# A library with a thread of its own, which adds one to what it is given.
SOURCE = """\
#include <pthread.h>
static pthread_mutex_t lock;
static pthread_cond_t changed;
static int given, made;
static void *work(void *unused) {
    pthread_mutex_lock(&lock);
    for (;;) {
        while (!given) pthread_cond_wait(&changed, &lock);
        made = given + 1;
        given = 0;
        pthread_cond_broadcast(&changed);
    }
    return unused;
}
int begin(void) {
    pthread_t thread;
    pthread_mutex_init(&lock, 0);
    pthread_cond_init(&changed, 0);
    return pthread_create(&thread, 0, work, 0);
}
int add(int n) {
    pthread_mutex_lock(&lock);
    made = 0;
    given = n;
    pthread_cond_broadcast(&changed);
    while (!made) pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
    return made;
}
"""
BUILD = f"""\
import ctypes, subprocess
open('slow.c', 'w').write({SOURCE!r})
_ = subprocess.run(['cc', '-shared', '-fPIC', '-pthread', '-o', './libadder-1.2.so', 'slow.c'], check=True)
adder = ctypes.CDLL('./libadder-1.2.so'); adder.begin(); print(adder.add(4))
"""
NAMED = "native threads lost: adder 1; what needs them hangs: make its objects anew, or `reset` and import it again"
GOMP = """\
gomp, libc = ctypes.CDLL('libgomp.so.1'), ctypes.CDLL(None)
def parallel(): gomp.GOMP_parallel(ctypes.cast(libc.getpid, ctypes.c_void_p), None, 2, 0); print('done')
parallel()"""


@unittest.skipUnless(shutil.which("cc"), "there is no compiler")
class Named(Case):
    def setUp(self):
        self.server = Server("--wait", "25").__enter__()
        self.addCleanup(self.server.__exit__, None, None, None)
        self.assert_prints(self.server.python(BUILD, timeout_s=60), "5")
        for code in "x = 1", "x = 2":  # meanwhile the thread waits: one that runs has no place
            self.assertNotIn("native threads", self.server.python(code).status.line)

    def hangs(self, **arguments):
        result = self.server.python("adder.add(6)", timeout_s=1, **arguments)
        self.assertEqual(result.status.kind, "timeout", result.text)
        self.assertIn(NAMED, result.status.line)
        self.assertNotIn("send timeout_s", result.status.line)

    def test_after_a_crash_before_and_when_it_hangs(self):
        self.assertIn(NAMED, self.server.python(DIE).status.line)
        self.assertNotIn("native threads", self.server.python("1").status.line)
        self.hangs()
        self.hangs()

    def test_after_undo(self):
        self.hangs(undo=True)

    def test_after_restore(self):
        self.assert_ok(self.server.python("1", checkpoint="one"))
        self.assertIn(NAMED, self.server.python("", restore="one").status.line)

    def test_in_a_branch(self):
        self.hangs(branch=True)
        self.assert_prints(self.server.python("print(adder.add(7))"), "8")

    def test_in_a_branch_beside_a_job(self):
        job = self.server.start_call("run_python", code="open('ready', 'w').close(); import time; time.sleep(600)", wait_s=0)
        self.assertIn("job", self.server.finish_call(job).text)
        self.hangs(branch=True)
        self.server.call("run_python", job=1, stop=True)

    def test_a_library_has_the_name_of_its_package(self):
        places = ("site-packages/_mill_runtime_32/mill.abi3.so", "site-packages/saw.libs/libgear-a430.so.5", "packages/2/duckdb/x.so")
        self.assert_ok(self.server.python(
            f"import os, shutil\nfor place in {places}:\n    os.makedirs(os.path.dirname(place)); shutil.copy('libadder-1.2.so', place)\n"
            "    ctypes.CDLL('./' + place).begin()\nd = type('Bit', (), {'__module__': 'duckdb.bits'})()"))
        self.assert_ok(self.server.python("x = 3"))
        named = self.server.python(DIE).status.line.partition("native threads lost: ")[2].partition(";")[0]
        self.assertEqual(set(named.strip('"').split(", ")), {"adder 1", "mill 1", "gear 1", "duckdb 1 (d: do not close it)"})

    def test_new_threads_are_not_lost(self):
        self.server.python(DIE)
        self.assert_prints(self.server.python("adder.begin(); print(adder.add(1))"), "2")
        self.waits_for_nothing("import time; time.sleep(600)")

    def waits_for_nothing(self, code):
        result = self.server.python(code, timeout_s=1)
        self.assertEqual(result.status.kind, "timeout", result.text)
        self.assertNotIn("threads", result.status.line)
        self.assertIn("the code only waited", result.status.line)

    def test_a_new_interpreter_lacks_none(self):
        self.server.python(DIE)
        self.assert_ok(self.server.python("1", reset=True))
        self.waits_for_nothing("import time; time.sleep(600)")

    def test_threads_of_python(self):
        self.assert_ok(self.server.python(
            "import queue, threading; q, out = queue.Queue(), queue.Queue()\ndef work():\n    while True: out.put(q.get() * 2)\n"
            "threading.Thread(target=work, daemon=True).start()", session="worker"))
        self.assert_ok(self.server.python("x = 1", session="worker"))
        for arguments in ({"branch": True}, {"undo": True}, {}):
            result = self.server.python("q.put(2); out.get()", timeout_s=1, session="worker", **arguments)
            self.assertEqual(result.status.field("threads"), "1 lost; what needs them hangs: make its objects anew, or `reset`")
            self.assertNotIn("send timeout_s", result.status.line)

    def test_threads_that_a_pool_starts_again(self):
        self.assert_ok(self.server.python(
            "from concurrent.futures import ThreadPoolExecutor as T; import time; t = T(1); t.submit(abs, 1)\n"
            "import asyncio; p = await asyncio.create_subprocess_exec('sleep', '600')", session="pool"))
        self.server.python(DIE, session="pool")
        result = self.server.python("time.sleep(600)", timeout_s=1, session="pool")
        self.assertIn("the code only waited", result.status.line)


class Renewed(Case):
    @unittest.skipUnless(ctypes.util.find_library("gomp"), "there is no libgomp")
    def test_openmp_that_ctypes_has_loaded(self):
        """The session has threads before it, so that its libraries are known by then."""
        with Server() as server:
            self.assert_ok(server.python("import ctypes, threading; stop = threading.Event(); threading.Thread(target=stop.wait).start()"))
            self.assert_prints(server.python(GOMP), "done")
            server.python(DIE)
            self.assert_prints(server.python("parallel()", timeout_s=20), "done")
            self.assert_prints(server.python("parallel()", timeout_s=20, branch=True), "done")
            self.assert_prints(server.python("parallel()", timeout_s=20, undo=True), "done")


if __name__ == "__main__":
    unittest.main()
