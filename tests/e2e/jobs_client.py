"""What tests of jobs share. Cells wait for a file that the test creates, so that no outcome depends on time."""
import time

from client import SLOW, Case

JOBS = ("--wait", "25")
KEPT = "kept (interrupted)"
WAIT_S = 60 * SLOW  # for what is to happen before that
LONG = {"timeout_s": 600}

# until(name) returns once the test has created that file; daemon(name) leaves a process that holds a lock on it.
PREPARE = """
import fcntl, os, time
def until(name):
    while not os.path.exists(name): time.sleep(0.01)
def daemon(name):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            held = open(name, 'w'); fcntl.flock(held, fcntl.LOCK_EX)
            open(name + '.up', 'w').close()
            time.sleep(600)
        os._exit(0)
    until(name + '.up')
"""
IS_ALIVE = """
import fcntl
try: fcntl.flock(open({!r}), fcntl.LOCK_EX | fcntl.LOCK_NB); print('gone')
except BlockingIOError: print('alive')
"""


class JobCase(Case):
    def begin(self, server, code, **arguments):
        """The number of a job that runs this code."""
        result = server.python(PREPARE + code, **{"wait_s": 0, **LONG, **arguments})
        return self.assert_running(result)

    def assert_running(self, result, number=None):
        self.assertFalse(result.is_error, result.text)
        self.assertRegex(result.status.line, r"^\[running: job \d+, \d+ s of at most [\d.e+]+ s", result.text)
        found = int(result.status.line.split()[2].rstrip(","))
        if number is not None:
            self.assertEqual(found, number, result.text)
        return found

    def assert_not_run(self, result, number=None):
        self.assertTrue(result.is_error, result.text)
        self.assertRegex(result.status.line, r"^\[not run: ")
        if number is not None:
            self.assertIn(f"job {number} has been running for ", result.status.line)

    def assert_stopped(self, result, number):
        self.assertFalse(result.is_error, result.text)
        line = next(line for line in reversed(result.lines) if line.startswith("[stopped: "))
        self.assertRegex(line, rf"^\[stopped: job {number} after \S+ (us|ms|s|min)\b")

    def poll(self, server, number, **arguments):
        return server.call("run_python", job=number, **{"wait_s": WAIT_S, **arguments}, _timeout=2 * WAIT_S)

    def stop(self, server, number, **arguments):
        return self.poll(server, number, stop=True, **arguments)

    def open_gate(self, server, name, fresh=False):
        """fresh: not with write_file, which waits for earlier calls that are no jobs."""
        if fresh:
            self.assertFalse(server.python(f"open({name!r}, 'w').close()", fresh=True, wait_s=WAIT_S).is_error)
        else:
            self.assertFalse(server.write(name, "open").is_error)

    def wait_for_file(self, server, name, fresh=False):
        if fresh:
            self.assert_ok(server.python(f"{PREPARE}until({name!r})", fresh=True, wait_s=WAIT_S, timeout_s=WAIT_S))
            return
        until = time.monotonic() + WAIT_S
        while server.read(name).is_error:
            self.assertLess(time.monotonic(), until, f"no file {name}")
            time.sleep(0.02)

    def wait_for_output(self, server, number, text):
        """Polls until the job has printed this; what all polls returned."""
        seen, until = "", time.monotonic() + WAIT_S
        while text not in seen:
            self.assertLess(time.monotonic(), until, seen)
            result = self.poll(server, number, wait_s=0.05)
            self.assert_running(result, number)
            seen += result.output + "\n" if result.output else ""
        return seen

    def is_alive(self, server, name):
        result = server.python(IS_ALIVE.format(name), fresh=True, wait_s=WAIT_S)
        self.assertFalse(result.is_error, result.text)
        return "alive" in result.output

    def assert_process_ends(self, server, name):
        until = time.monotonic() + 10 * SLOW
        while self.is_alive(server, name):
            self.assertLess(time.monotonic(), until, f"the process of {name} still runs")
            time.sleep(0.05)
