"""Random sequences of jobs in two sessions, checked by a model of what the variables must be. See stress.py --jobs.

Each session has a list v. A quick call prints and extends it. A job prints v, adds n, prints ticks until the test opens
its gate, and adds -n. The model knows the lists that a session may have: more than one only where a stop or a
cancellation raced with the cell. Every result about a job must deliver each line once and in order, and all of
them when it is fetched again; the end of a job is announced once, or fetched.
"""
import ast
import collections
import os
import pathlib
import random
import re
import signal
import time

from client import SLOW, Result, Server
from traces import descendants

STEPS = 3
WAIT_S = 60 * SLOW
JOBS = 3
JOB = """print('v', v); v.append({n}); import itertools, os, time; print('a {n}', os.getpid(), flush=True)
{native}
i = 0
while not os.path.exists('g{n}'): print('tick {n}', i, flush=True); i += 1; time.sleep(0.01)
v.append(-{n}); print('b {n}')
"""
NATIVE = "sum(itertools.repeat(0))"
ENDED = re.compile(r"\[job (\d+) ended after \d+ s: ([^;]+); fetch it with \{\"job\": \1\}\]$")
ACTIONS = ((20, "quick"), (24, "start"), (16, "poll"), (12, "stop"), (12, "finish"), (10, "undo"), (8, "kill"),
           (6, "cancel"), (4, "restore"), (2, "reset"), (6, "fetch again"))


class Wrong(AssertionError):
    """A result that the model excludes."""


def expect(true, what):
    if not true:
        raise Wrong(what)


def host_pid(server, inner):
    """The pid outside the sandbox of the interpreter that printed this one."""
    for pid in descendants(server.pid):
        try:
            found = re.search(r"^NSpid:\s*(.*)$", pathlib.Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
        except OSError:
            continue
        if found and found[1].split()[-1] == str(inner):
            return pid
    return None


class Session:
    def __init__(self, name):
        self.name, self.job = name, None
        self.now = {()}  # what v may be
        self.steps = collections.deque(maxlen=STEPS)  # the same before each call that undo can take back
        self.named = None


class Job:
    def __init__(self, number, session, n, native):
        self.number, self.session, self.n, self.native = number, session, n, native
        self.before = session.now
        self.lines = []  # delivered so far
        self.open = False
        self.whole = None

    @property
    def begun(self):
        return any(line.startswith("a ") for line in self.lines)

    @property
    def pid(self):
        return next((line.split()[2] for line in self.lines if line.startswith("a ")), None)

    def with_added(self, *numbers):
        return {(*v, *numbers) for v in self.before}


class Sequence:
    def __init__(self, server, seed):
        self.server, self.choice = server, random.Random(seed)
        self.sessions = [Session("s0"), Session("default")]
        self.jobs = {}  # number -> Job, in the order of their starts
        self.last = self.n = 0
        self.announced = set()
        self.trail = []

    # --- results ---

    def call(self, **arguments):
        result = self.server.call("run_python", _timeout=90, **arguments)
        self.trail.append((arguments, result.text))
        return self.parts(result)

    def parts(self, result):
        """The result, and what it has between announcements and status line."""
        lines = result.lines
        while found := ENDED.match(lines[0]):
            self.take_announcement(int(found[1]))
            lines = lines[1:]
        return result, lines[:-1] if lines[-1].startswith("[") else lines

    def take_announcement(self, number):
        job = self.jobs.get(number)
        expect(job, f"job {number} was never started")
        expect(number not in self.announced and job.whole is None, f"job {number} was announced before, or fetched")
        self.announced.add(number)

    def take_v(self, session, lines):
        """The first line that prints v; it must be one of the possible lists."""
        found = next((line for line in lines if line.startswith("v ")), None)
        expect(found, "v was not printed")
        v = tuple(ast.literal_eval(found[2:]))
        expect(v in session.now, f"v is {v}, not of {session.now}")
        session.now = {v}

    def take_lines(self, job, lines):
        """Of a job that runs: each line comes once, in order."""
        job.lines += [line for line in lines if line]
        self.check_lines(job, job.lines)

    def check_lines(self, job, lines, cut=False):
        """cut: an interrupt inside of print leaves a part of the last line, in any Python."""
        expected = [rf"v \[.*\]", rf"a {job.n} \d+"]
        ticks = sum(line.startswith("tick") for line in lines)
        expected += [rf"tick {job.n} {i}" for i in range(ticks)] + [rf"b {job.n}"]
        for at, (line, pattern) in enumerate(zip(lines, expected)):
            is_part = cut and at == len(lines) - 1 and pattern.startswith(line)
            expect(is_part or re.fullmatch(pattern, line), f"line {line!r}, not {pattern!r}")

    def take_end(self, job, result, lines):
        """The result that ends a job. Moves the session to the state that it names."""
        line = next(line for line in reversed(result.lines) if line.startswith("[") and "already" not in line)
        printed = [text for text in lines if re.match(r"(v|a|tick|b) ", text)]
        if job.whole is not None:
            expect(line == job.whole, f"the result was {job.whole}")
            expect(printed == job.lines, "it lacks what earlier results returned")
            return
        job.whole = line
        job.lines += printed
        self.check_lines(job, job.lines, cut=not line.startswith("[ok"))
        if job.session.job is job:
            self.resolve(job, line, job.lines)

    def resolve(self, job, line, printed):
        session = job.session
        session.job = None
        state = re.search(r"\| state: ([^|\]]+)", line)
        state = state[1].strip() if state else "kept"
        begun = any(text.startswith("a ") for text in printed)
        if line.startswith("[ok"):
            expect(job.open, "it ended, and nobody let it")
            session.now = job.with_added(job.n, -job.n)
        elif state == "restored to the state before this call":
            session.now = job.before
        else:
            expect(state.startswith("kept"), f"state {state}")
            expect(line.startswith("[stopped"), "it did not end well, and nobody has stopped it")
            session.now = job.with_added(job.n)
            session.now |= set() if begun else job.before
            session.now |= job.with_added(job.n, -job.n) if job.open else set()
        if line.startswith("[stopped") and not printed:
            session.steps.clear()  # it may not have begun
        else:
            session.steps.append(job.before)

    def wait_for_end(self, job, **arguments):
        result, lines = self.call(job=job.number, wait_s=WAIT_S, **arguments)
        expect("[running:" not in result.text and "[stopping:" not in result.text, "it still runs")
        self.take_end(job, result, lines)

    # --- actions ---

    def quick(self, session):
        self.n += 1
        code = f"print('v', v); v.append({self.n})"
        job = session.job
        if job and not job.open:
            result, lines = self.call(code=code, session=session.name, wait_s=self.choice.choice((0, 0.02)))
            expect(result.is_error and result.status.line.startswith("[not run: ") and not "".join(lines), "it ran")
            return
        if job and self.choice.random() < 0.5:
            self.wait_for_end(job)
        elif job:  # it ends by itself, and is fetched later
            session.now, session.job = job.with_added(job.n, -job.n), None
            session.steps.append(job.before)
        save = self.choice.random() < 0.3
        result, lines = self.call(code=code, session=session.name, wait_s=WAIT_S,
                                  **({"checkpoint": "name"} if save else {}))
        expect(not result.is_error, "it failed")
        self.take_v(session, lines)
        self.made(session)
        if save:
            session.named = session.now

    def made(self, session):
        session.steps.append(session.now)
        session.now = {(*v, self.n) for v in session.now}

    def running(self):
        return [session.job for session in self.sessions if session.job]

    def start(self, session):
        if session.job or len(self.jobs) >= 8:  # whose results are kept
            return
        self.n += 1
        native = self.choice.random() < 0.25
        result, lines = self.call(code=JOB.format(n=self.n, native=NATIVE if native else ""), session=session.name,
                                  wait_s=self.choice.choice((0, 0, 0.03)), timeout_s=600)
        found = re.match(r"\[running: job (\d+), ", result.status.line)
        expect(found and int(found[1]) == self.last + 1, "not the next job")
        self.last += 1
        job = session.job = self.jobs[self.last] = Job(self.last, session, self.n, native)
        self.take_lines(job, lines)
        while self.choice.random() < 0.7 and not job.begun or job.begun and self.choice.random() < 0.2:
            self.poll(session)

    def poll(self, session):
        job = session.job
        if not job:
            return
        if self.choice.random() < 0.3:
            cancelled = self.server.start_call("run_python", job=job.number, wait_s=WAIT_S)
            self.server.cancel(cancelled)
            if job.open:
                self.server.request("ping")
                if cancelled in self.server.stash:  # the job had ended before
                    self.take_end(job, *self.parts(Result(self.server.stash.pop(cancelled)["result"])))
        result, lines = self.call(job=job.number, wait_s=self.choice.choice((0, 0.01, 0.05)))
        if "[running:" in result.text:
            self.take_lines(job, lines)
        else:
            expect(job.open, "it ended, and nobody let it")
            self.take_end(job, result, lines)

    def stop(self, session):
        if session.job:
            self.wait_for_end(session.job, stop=True)

    def finish(self, session):
        job = session.job
        if not job or job.native:
            return
        expect(not self.server.write(f"g{job.n}", "").is_error, "the gate")
        job.open = True
        if self.choice.random() < 0.6:
            self.wait_for_end(job)

    def undo(self, session):
        job = session.job
        if not job and not session.steps:
            return
        result, lines = self.call(code="print('v', v)", undo=True, session=session.name, wait_s=WAIT_S)
        expect(not result.is_error and ": back to the state " in result.text, "not undone")
        if job:
            expect(job.whole or job.number in self.announced, "it does not say that it has stopped the job")
            session.job = None
            session.now = job.before
            self.wait_for_end(job)
        else:
            session.now = session.steps.pop()
        self.take_v(session, lines)
        self.made_nothing(session, job)

    @staticmethod
    def made_nothing(session, job):
        """The code behind the undo only looks. What is before the job is less known."""
        if job:
            session.steps.clear()

    def restore(self, session):
        job, named = session.job, session.named
        if named is None:
            return
        result, lines = self.call(code="print('v', v)", restore="name", session=session.name, wait_s=WAIT_S)
        expect(not result.is_error, "not restored")
        session.job, session.now = None, named
        session.steps.clear()
        self.take_v(session, lines)
        if job:
            self.wait_for_end(job)

    def reset(self, session):
        job = session.job
        result, _ = self.call(code="v = []", reset=True, session=session.name, wait_s=WAIT_S)
        expect(not result.is_error, "not reset")
        session.job, session.now, session.named = None, {()}, None
        session.steps.clear()
        if job:
            self.wait_for_end(job)

    def kill(self, session):
        job = session.job
        if not job or job.open:
            return
        while not job.begun:
            self.poll(session)
        pid = host_pid(self.server, job.pid)
        expect(pid, "no interpreter")
        os.kill(pid, signal.SIGKILL)
        self.wait_for_end(job)
        expect(job.whole.startswith("[crashed: SIGKILL"), "it was killed")
        expect(session.now == job.before, "not restored")

    def cancel(self, session):
        """A call that is no job yet."""
        if session.job:
            return
        self.n += 1
        call = self.server.start_call("run_python", code=f"v.append({self.n}); import time; time.sleep(600)",
                                      session=session.name, wait_s=WAIT_S, timeout_s=600)
        time.sleep(self.choice.choice((0, 0.002, 0.02)))
        self.server.cancel(call)
        self.trail.append(("cancelled", session.name))
        session.now = session.now | {(*v, self.n) for v in session.now}
        session.steps.clear()
        result, lines = self.call(code="print('v', v)", session=session.name, wait_s=WAIT_S)
        expect(not result.is_error, "it failed")
        self.take_v(session, lines)
        expect(call not in self.server.stash, "a cancelled call got a result")

    def fetch_again(self, _):
        ended = [job for job in self.jobs.values() if job.whole]
        if ended:
            self.wait_for_end(self.choice.choice(ended), **({"stop": True} if self.choice.random() < 0.3 else {}))

    # --- the run ---

    def run(self, length):
        for session in self.sessions:
            result, _ = self.call(code="v = []", session=session.name, wait_s=WAIT_S)
            expect(not result.is_error, "it failed")
        for _ in range(length):
            weights, actions = zip(*ACTIONS)
            action = self.choice.choices(actions, weights)[0]
            getattr(self, action.replace(" ", "_"))(self.choice.choice(self.sessions))

    def end(self):
        """Stops all jobs. Then every result has been fetched, and every variable is as it must be."""
        for session in self.sessions:
            self.stop(session)
            self.quick(session)
        for job in self.jobs.values():
            self.wait_for_end(job)
        result, _ = self.call(code="1")
        expect("ended after" not in result.text, "announced after it was fetched")


def run_sequence(seed, length=16):
    """One server; None, or what was wrong."""
    with Server("--wait", "25", "--jobs", str(JOBS), check=False) as server:
        sequence = Sequence(server, seed)
        try:
            sequence.run(length)
            if sequence.choice.random() < 0.3:
                server.signal(signal.SIGKILL)
                server.join()
            else:
                sequence.end()
                expect(server.end()[0] == 0, "exit status")
            left = server.left(10)
            expect(not left, f"left behind: {left}")
        except AssertionError as error:
            trail = "\n".join(f"   {arguments}\n      {text[-700:]!r}" for arguments, text in
                              (entry if len(entry) == 2 else (entry, "") for entry in sequence.trail[-8:]))
            return f"seed {seed}: {type(error).__name__}: {error}\n{trail}"
    return None
