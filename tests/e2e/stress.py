"""Random crashes in several sessions at once, against a model that knows what every answer must say.

    stress.py [--calls 5000] [--sessions 3] [--seed N] [--minutes M]

Each call counts, draws a random number, changes the folder and prints what it found; then it ends well or
in one of the ways of deaths.py, or is cancelled, or is followed by a kill that hits at a random moment.
Before it, it may undo the last call or restore a named state; after it, name one. Calls are pipelined. The
model (model.py) holds for each session what the count was after each cell, and follows what the answers say
of the state: every answer must come, and once, and the count, the random number and the folder that it
prints must be those of the state that the server said there was. The same seed sends the same calls; when
they meet is the machine's business.
"""
import argparse
import collections
import contextlib
import json
import random
import re
import sys
import time

import deaths
from client import SLOW, ProtocolError, Result, Server
from model import BACK, EARLIER, NAMED, Session, Wrong, expect

SEED_INSIDE = 7
BEGIN = f"""import os, random, sys
if 'count' not in globals():
    count, kept = 0, []
    random.seed({SEED_INSIDE})
count += 1
kept.append(count)
print(sys._getframe().f_code.co_filename, count, len(kept), random.random(), os.getcwd(), flush=True)
os.makedirs(f'/tmp/{{count % 3}}', exist_ok=True)
os.chdir(f'/tmp/{{count % 3}}')
"""
FOUND = re.compile(r"<cell (\d+)> (\d+) (\d+) (\S+) (\S+)$", re.MULTILINE)
SAVED = re.compile(r'saved as "(.+?)"(?:; the oldest, "(.+?)", was dropped)?$')
# (weight, kind); a kind is a key of ENDS, or one that Stress.compose knows.
KINDS = ((36, "ok"), (6, "error"), (4, "exit"), (24, "sudden"), (16, "later"), (4, "cancel"), (0.6, "reset"),
         (6, "fresh"), (0.4, "slow"), (0.2, "reset and die"))
# What comes before the code, and how often.
WAYS_BACK = ((70, None), (18, "undo"), (12, "restore"))
NAMES = [f"n{i}" for i in range(NAMED + 2)]
STUCK_S = min(SLOW, 5)  # for a call that does not end by itself, but should come to its first line
ENDS = {"ok": ("", "ok"), "error": ("1 / 0", "error: ZeroDivisionError"), "exit": ("sys.exit(4)", "exit code 4")}


class Mismatch(AssertionError):
    """The server said something that the model excludes."""


class Call:
    def __init__(self, kind, end, expected, **arguments):
        self.kind, self.expected, self.arguments = kind, expected, arguments
        self.code = end if kind == "cancel" else BEGIN + end
        self.id = self.result = None


def draws(count, cache=[random.Random(SEED_INSIDE)]):
    generator, *known = cache
    while len(known) < count:
        cache.append(generator.random())
        known = cache[1:]
    return known[count - 1]


def folder_before(count):
    return "/work" if count == 1 else f"/tmp/{(count - 1) % 3}"


class Stress:
    def __init__(self, server, seed, sessions=3, depth=4):
        self.server, self.depth = server, depth
        self.choice = random.Random(seed)
        self.sessions = [Session(f"s{i}") for i in range(sessions)]
        self.in_flight = {}
        self.judged = None  # the session of the answer at hand
        self.recent = collections.deque(maxlen=6)
        self.tally = collections.Counter()

    # --- what is sent ---

    def compose(self):
        call = self.compose_end()
        if call.kind not in ("reset", "reset and die", "fresh"):
            weights, ways = zip(*WAYS_BACK)
            way = self.choice.choices(ways, weights)[0]
            if way:
                call.arguments[way] = way == "undo" or self.choice.choice(NAMES)
                if call.kind == "ok" and self.choice.random() < 0.4:
                    call.code = ""
            if call.kind != "cancel" and call.code and self.choice.random() < 0.35:
                call.arguments["checkpoint"] = self.choice.choice(NAMES)
        return call

    def compose_end(self):
        weights, kinds = zip(*KINDS)
        kind = self.choice.choices(kinds, weights)[0]
        if kind in ENDS:
            return Call(kind, *ENDS[kind])
        if kind == "later":
            mean_us = self.choice.choice((300, 2000, 20000))
            end = deaths.KILLED_LATER.format(us=int(self.choice.expovariate(1 / mean_us)))
            return Call(kind, end, "ok|crashed: SIGKILL")
        if kind == "cancel":
            # Changes nothing, for it may be interrupted anywhere; answered only where a kill hits it first.
            return Call(kind, "import time; time.sleep(60)", "(?!)")
        if kind in ("reset", "fresh"):
            return Call(kind, "", "ok", **{kind: True})
        table = deaths.SLOW if kind == "slow" else deaths.SUDDEN
        way = self.choice.choice(sorted(table))
        end, expected = table[way]
        if way == "stops itself":
            expected += "|ok"  # init continues a checkpoint, and may still take one that just woke for it
        if expected == "out of memory":
            expected += "|crashed: SIGKILL"
        return Call(kind, end, expected, timeout_s=STUCK_S if expected.startswith("timeout") else 60,
                    **({"reset": True} if kind == "reset and die" else {}))

    def send(self, session, call):
        call.id = self.server.start_call("run_python", code=self.server.here(call.code), session=session.name,
                                         **call.arguments)
        if call.kind == "fresh":
            session.fresh += 1
        else:
            session.sent.append(call)
        self.in_flight[call.id] = session, call
        if call.kind == "cancel":
            time.sleep(self.choice.choice((0, 0, 0.0005, 0.003, 0.02)))
            self.server.cancel(call.id)

    # --- what must come ---

    def receive(self):
        """Takes one answer and holds it against the model."""
        try:
            message = self.server.receive(30)
        except ProtocolError as error:
            waiting = [(session.name, call.kind, call.id) for session, call in self.in_flight.values()]
            raise Mismatch(f"{error}; unanswered: {waiting}") from None
        if message is None:
            raise Mismatch("the server ended")
        if "method" in message:
            return
        if message.get("id") not in self.in_flight:
            raise Mismatch(f"nobody asked for this, or not twice: {message}")
        session, call = self.in_flight.pop(message["id"])
        self.recent.append((session, call))
        session.trail.append((call.id, call.kind, call.arguments, message))
        if "result" not in message:
            raise Mismatch(f"no result: {message}")
        self.tally[call.kind] += 1
        self.judged = session
        result = Result(message["result"])
        if call.kind == "fresh":
            session.fresh -= 1
            with self.telling(session, result):
                self.judge_fresh(result)
            return
        call.result = result
        self.judge_in_order(session)

    def judge_in_order(self, session):
        """An answer whose output is still being written to a file may be overtaken by the next one."""
        while any(call.result for call in session.sent):
            if session.sent[0].result:
                call = session.sent.popleft()
                self.judge(session, call, call.result)
            elif session.sent[0].kind == "cancel":
                self.in_flight.pop(session.sent.popleft().id)
                self.tally["cancel"] += 1
                session.skipped = True
            else:
                return

    @staticmethod
    @contextlib.contextmanager
    def telling(session, result):
        try:
            yield
        except Wrong as wrong:
            raise Mismatch(f"{session.name}: {wrong}: {result.text!r}") from None

    def judge_fresh(self, result):
        found = FOUND.search(result.output)
        expect(found and found[2] == "1" and found[5] == self.server.here("/work"), "a fresh run sees a state")
        expect(result.status.kind == "ok", "a fresh run fails")

    def take_back(self, session, text, result):
        """What an answer says of a death between the calls, or of a call that went unanswered."""
        self.tally["taken back"] += "was cancelled" not in text
        earlier, back = EARLIER.search(text), BACK.search(text)
        if back:  # of a cancelled call, whose code may have run or not
            session.unanswered()
            session.go_back(int(back[1] or 0), back[2])
        if earlier:
            session.fall_back(int(earlier[1]))
        elif back:
            pass
        elif "named states are gone" in text:
            session.names.clear()
        elif "state reset" in text:
            session.restart()
        elif "variables are gone" in text or "state lost" in text:
            expect(len(session.counts) <= 2, "a state with a checkpoint is lost")
            session.restart()
        elif "restored to before this call" in text:
            session.armed = 0  # that was the cancelled call's
        else:
            expect("a call was cancelled" in text, "an unknown notice")

    def judge(self, session, call, result):
        with self.telling(session, result):
            if self.memory_is_short():
                session.forget_steps()
            if result.text.startswith("Nothing was "):
                if session.skipped:  # what became of it is told by a later answer
                    session.unanswered()
                session.refuses(result.text, call)
                self.tally["nowhere to go back to"] += 1
            else:
                self.judge_status(session, call, result)

    def judge_status(self, session, call, result):
        status, found = result.status, FOUND.search(result.output)
        for notice in (status.field("before") or "").split("; "):
            if notice:
                self.take_back(session, notice, result)
        if session.skipped:
            session.unanswered()
            session.skipped = False
        killed = f"crashed: SIGKILL{self.or_out_of_memory(call)}"
        by_late_kill = session.armed and re.match(rf"\[(?:{killed})", status.line)
        if call.kind == "later":
            session.armed += 1
        expected = re.match(rf"\[(?:{call.expected.replace('crashed: SIGKILL', killed)})", status.line)
        expect(expected or by_late_kill, f"{call.kind}: not {call.expected}")
        if call.arguments.get("reset") and (found or not by_late_kill):
            session.restart()
            session.armed = int(call.kind == "later")
        back = BACK.match(status.state or "")
        expect(bool(back) == bool({"undo", "restore"} & set(call.arguments)) or by_late_kill,
               "it did not go back, or nobody asked")
        if back:
            self.judge_back(session, call, back, result)
        if found:
            self.judge_found(session, found, result)
        else:
            expect(by_late_kill or not call.code, "it printed nothing")
        self.judge_state(session, call, status, found, result)
        if "checkpoint" in call.arguments:
            self.judge_saved(session, call, status, result)

    def judge_back(self, session, call, back, result):
        expect(call.arguments.get("restore") == back[2], "another way back than was asked for")
        session.go_back(int(back[1] or 0), back[2])
        session.armed = int(call.kind == "later")
        self.tally["went back"] += 1

    def judge_saved(self, session, call, status, result):
        said = status.field("checkpoint") or ""
        saved = SAVED.match(said)
        ok = re.match(r"\[ok", status.line)
        expect(bool(saved) == bool(ok), "saved, and the call failed; or the other way round")
        if saved:
            expect(saved[1] == call.arguments["checkpoint"], "another name")
            session.save(saved[1], saved[2])
            self.tally["named"] += 1

    def or_out_of_memory(self, call):
        """The kernel counts its kills for a group: of two that die at once, one may be taken for the other."""
        return "|out of memory" if self.memory_is_short(call) else ""

    def memory_is_short(self, but=None):
        """A call of some session fills it: others lose their states for undo."""
        return any(other.expected == "out of memory|crashed: SIGKILL" and other is not but
                   for _, other in [*self.in_flight.values(), *self.recent])

    def judge_found(self, session, found, result):
        count = int(found[2])
        expect(session.now in (count - 1, None), f"it began with {session.now}")
        expect(int(found[3]) == count, "list and count differ")
        expect(float(found[4]) == draws(count), f"random is not {draws(count)}")
        folder = self.server.here(folder_before(count))
        expect(found[5] == folder, f"not in {folder}")

    def judge_state(self, session, call, status, found, result):
        died = not re.match(r"\[(ok|error|exit code 4)", status.line)
        state = BACK.sub("", status.state or "", count=1) or "kept"
        earlier = EARLIER.match(state)
        if earlier:
            session.fall_back(int(earlier[1]))
        elif state.startswith("lost"):
            expect(died and len(session.counts) <= 2, "a state with a checkpoint is lost")
            session.restart()
        elif state in ("restored to before this call", "restored to there"):
            expect(died, "restored without a death")
            session.died()
        else:
            expect(re.match("kept|reset, then kept", state), "an unknown state")
            expect(not died or "interrupted" in state, "kept in spite of a death")
            if found:
                session.made(int(found[1]), int(found[2]), "restore" in call.arguments)
        self.tally[re.sub(r"\d+", "N", state)] += 1

    # --- the run ---

    def run(self, calls, seconds=None):
        end = time.monotonic() + (seconds or 1e9)
        left = calls
        while (left > 0 and time.monotonic() < end) or self.in_flight:
            open_ones = [session for session in self.sessions if len(session.sent) + session.fresh < self.depth]
            if left > 0 and time.monotonic() < end and open_ones and self.choice.random() < 0.6:
                self.send(self.choice.choice(open_ones), self.compose())
                left -= 1
            elif self.answers_are_due():
                self.receive()
            elif left <= 0 or time.monotonic() >= end or not open_ones:
                self.close_with_ok()
        return self.tally

    def answers_are_due(self):
        return any(call.kind != "cancel" for _, call in self.in_flight.values())

    def close_with_ok(self):
        """Only cancelled calls are unanswered: a call behind each shows that they are over."""
        for session in self.sessions:
            if session.sent:
                self.send(session, Call("ok", *ENDS["ok"]))


def explain(stress, error):
    lines = [str(error)]
    for session in [stress.judged] if stress.judged else stress.sessions:
        lines.append(session.describe())
        lines += ["   " + json.dumps(entry)[:600] for entry in session.trail]
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--calls", type=int, default=5000)
    parser.add_argument("--sessions", type=int, default=3)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--minutes", type=float)
    options = parser.parse_args()
    began = time.monotonic()
    print(f"seed {options.seed}", flush=True)
    with Server("--memory", "256M") as server:
        stress = Stress(server, options.seed, options.sessions)
        try:
            tally = stress.run(options.calls, options.minutes and options.minutes * 60)
        except Mismatch as error:
            print(explain(stress, error))
            server.check = False
            return 1
    for name, count in sorted(tally.items()):
        print(f"{count:7} {name}")
    print(f"no wrong and no missing answer in {time.monotonic() - began:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
