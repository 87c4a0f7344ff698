"""Random crashes in several sessions at once, checked by a model that knows what every result must say. See stress.py.

Each call increments a counter, draws a random number, changes the directory and prints them; then it succeeds, dies in
one of the ways of deaths.py, is cancelled, or is followed by a kill at a random moment. It may first undo the last call
or restore a named state, and may name a state afterwards. Calls are pipelined. The model (model.py) has the count after
each cell of each session and follows the reported states: every call gets exactly one response, and the count, the
random number and the directory that it prints must be those of the state that the server reported. The same seed sends
the same calls; their timing depends on the machine.

A death takes the call in which it happens, or, by a kill that code has armed, the last call before the fork of its
checkpoint (Session.takes in model.py). Whatever else is gone is a lost state, also where the server reports it: the run
goes on, counts it, and stress.py fails at the end.
"""
import collections
import contextlib
import json
import random
import re
import time

import deaths
from client import SLOW, ProtocolError, Result
from model import BACK, EARLIER, NAMED, NOT_STARTED, Session, Wrong, expect

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
SAVED = re.compile(r'(?:not yet )?saved as "(.+?)"(?:: still being saved)?(?:; the oldest, "(.+?)", was dropped)?$')
MADE_WAY = "memory was short, named states dropped: "
# (weight, kind); a kind is a key of ENDS, or one that Stress.compose handles.
KINDS = ((36, "ok"), (6, "error"), (4, "exit"), (24, "sudden"), (16, "later"), (4, "cancel"), (0.6, "reset"),
         (6, "fresh"), (0.4, "slow"), (0.2, "reset and die"))
# (weight, what the call does before its code).
WAYS_BACK = ((66, None), (18, "undo"), (12, "restore"), (4, "drop"))
NAMES = [f"n{i}" for i in range(NAMED + 2)]
STUCK_S = min(SLOW, 5)  # for a call that does not end by itself but must reach its first line
ENDS = {"ok": ("", "ok"), "error": ("1 / 0", "error: ZeroDivisionError"), "exit": ("sys.exit(4)", "exit code 4")}


class Mismatch(AssertionError):
    """The server sent a result that the model excludes."""


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


def directory_before(count):
    return "/work" if count == 1 else f"/tmp/{(count - 1) % 3}"


class Stress:
    def __init__(self, server, seed, sessions=3, depth=4, on_death=lambda: None, on_loss=lambda text: None):
        self.server, self.depth, self.on_death, self.on_loss = server, depth, on_death, on_loss
        self.choice = random.Random(seed)
        self.sessions = [Session(f"s{i}") for i in range(sessions)]
        self.in_flight = {}
        self.checked = None  # the session of the current result
        self.tally = collections.Counter()
        self.deaths = 0
        self.losses = []  # what was lost and the last results of that session

    # --- requests ---

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
            ways = (deaths.KILLED_LATER, deaths.KILLED_LATER, deaths.GROUP_KILLED_LATER)
            end = self.choice.choice(ways).format(us=int(self.choice.expovariate(1 / mean_us)))
            return Call(kind, end, "ok|crashed: SIGKILL")
        if kind == "cancel":
            # Changes nothing, because it may be interrupted anywhere; has a response only if a kill comes first.
            return Call(kind, "import time; time.sleep(60)", "(?!)")
        if kind in ("reset", "fresh"):
            return Call(kind, "", "ok", **{kind: True})
        table = deaths.SLOW if kind == "slow" else deaths.SUDDEN
        way = self.choice.choice(sorted(table))
        end, expected = table[way]
        if way == "stops itself":
            expected += "|ok"  # init resumes a checkpoint, and may still choose one that has just resumed by itself
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

    # --- responses ---

    def receive(self):
        """Reads one response and checks it with the model."""
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
        for each in self.sessions:
            each.recent.append(call)
        session.trail.append((call.id, call.kind, call.arguments, message))
        if "result" not in message:
            raise Mismatch(f"no result: {message}")
        self.tally[call.kind] += 1
        self.checked = session
        result = Result(message["result"])
        if call.kind == "fresh":
            session.fresh -= 1
            with self.telling(session, result):
                self.check_fresh(result)
            return
        call.result = result
        self.check_in_order(session)

    def check_in_order(self, session):
        """A result whose output is still being written to a file may arrive after the next one."""
        while any(call.result for call in session.sent):
            if session.sent[0].result:
                call = session.sent.popleft()
                self.check(session, call, call.result)
                del session.recent[:-6]
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

    def check_fresh(self, result):
        found = FOUND.search(result.output)
        expect(found and found[2] == "1" and found[5] == self.server.here("/work"), "a fresh run sees a state")
        expect(result.status.kind == "ok", "a fresh run fails")

    def take_back(self, session, text, call):
        """Applies what a result reports of a death between the calls, or of a cancelled call."""
        self.tally["taken back"] += "was cancelled" not in text
        earlier, back = EARLIER.search(text), BACK.search(text)
        if back:  # of a cancelled call, whose code may have run
            session.lose_track()
            session.go_back(int(back["cell"] or 0), back["name"])
        if earlier:
            expect(session.armed or session.pending, "the interpreter died, and nothing has killed it")
            self.died(session, int(earlier[1]), by_thread=True)
            session.fall_back(int(earlier[1]))
        elif text.startswith("the restore finished late, "):  # only said late: the call has asked for it
            expect(session.pending, "no result said that it was late")
            session.fall_back(int(re.search(r"<cell (\d+)>$", text)[1]))
        elif text.startswith("checkpoint died during restore, "):
            self.lose(session, text)
            session.fall_back(int(re.search(r"<cell (\d+)>$", text)[1]))
        elif "variables lost" in text or "state lost" in text:
            self.died(session, 0, by_thread=True)
            session.restart()
        elif "restored to the state before this call" in text:
            self.count_death()
            session.armed = 0  # that was the cancelled call's
        elif "not yet restored" in text:
            self.count_death()
            session.pending = True
        elif back:
            pass
        elif text.startswith("named states: "):
            session.drop(text)
        elif text.startswith(MADE_WAY):  # a call of some session fills it
            expect(self.memory_is_short(session), "memory was not short")
            session.made_way(re.findall(r'"(.+?)"', text))
        elif "named states are lost" in text or "dropped the named states" in text:
            if "reset" not in call.arguments:
                self.lose(session, text)
            session.names.clear()
            session.missing.clear()
        elif text.startswith("the state ") and " is lost, " in text:
            self.lose(session, text)
            session.names.pop(re.search('"(.+)"', text)[1], None)
            session.forget_steps()
        elif text.startswith("no checkpoint of the last call"):  # nothing is lost yet
            self.tally["without a checkpoint"] += 1
        elif "state reset" in text:
            session.restart()
        else:
            expect("a call was cancelled" in text, "an unknown notice")

    def died(self, session, cell, by_thread=False):
        """The interpreter has died and the session has the state after this cell."""
        self.count_death()
        taken = session.takes(cell, by_thread)
        if taken == "more":
            self.lose(session, f"from {session.cell} back to {cell}")
        elif taken != "nothing":
            self.tally["killed before its checkpoint"] += 1

    def count_death(self):
        self.deaths += 1
        self.on_death()

    def lose(self, session, what):
        self.losses.append("\n".join((f"LOST {session.name}: {what}", *describe(session))))
        self.on_loss(self.losses[-1])

    def check(self, session, call, result):
        with self.telling(session, result):
            if self.memory_is_short(session):
                session.forget_steps()
            if result.text.startswith(("Nothing was ", NOT_STARTED)):
                if session.skipped:  # a later result reports its outcome
                    session.unanswered()
                session.refuses(result.text, call)
                self.tally["nowhere to go back to"] += 1
            else:
                self.check_status(session, call, result)

    def check_status(self, session, call, result):
        status, found = result.status, FOUND.search(result.output)
        notices, pending = (status.field("since the last result") or "").split("; "), session.pending
        for notice in notices:
            if notice and not notice.startswith(MADE_WAY):
                session.pending |= pending  # one slow restore may follow another
                self.take_back(session, notice, call)
        if session.skipped:
            session.unanswered()
            session.skipped = False
        killed = f"crashed: SIGKILL{self.or_out_of_memory(session, call)}"
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
            self.check_back(session, call, back, result)
        for notice in notices:  # a state that this call has restored may have made way since
            if notice.startswith(MADE_WAY):
                self.take_back(session, notice, call)
        expect(not session.missing, f"nothing says why {session.missing} are gone")
        if found:
            self.check_found(session, found, result)
        else:
            expect(by_late_kill or not call.code, "it printed nothing")
        self.check_state(session, call, status, found, result)
        if status.field("named states"):
            expect("drop" in call.arguments, "nobody asked to drop a name")
            saved = SAVED.match(status.field("checkpoint") or "")
            session.drop(status.field("named states"), saved and saved[1])
            self.tally["dropped"] += 1
        else:
            expect("drop" not in call.arguments or by_late_kill, "the name was not dropped")
        if "checkpoint" in call.arguments:
            self.check_saved(session, call, status, result)

    def check_back(self, session, call, back, result):
        expect(call.arguments.get("restore") == back["name"], "not the requested undo or restore")
        session.go_back(int(back["cell"] or 0), back["name"])
        session.armed = int(call.kind == "later")
        self.tally["went back"] += 1

    def check_saved(self, session, call, status, result):
        said = status.field("checkpoint") or ""
        saved = SAVED.match(said)
        ok = re.match(r"\[ok", status.line)
        expect(bool(saved) == bool(ok), "saved, and the call failed; or the other way round")
        if saved:
            expect(saved[1] == call.arguments["checkpoint"], "another name")
            session.save(saved[1], saved[2])
            self.tally["named"] += 1

    def or_out_of_memory(self, session, call):
        """The kernel counts its kills per group, so two processes that die at once may be confused."""
        return "|out of memory" if self.memory_is_short(session, call) else ""

    def memory_is_short(self, session, but=None):
        """A call of some session fills the memory, or did since the last result: others lose their states."""
        return any(other.expected == "out of memory|crashed: SIGKILL" and other is not but
                   for other in [*(call for _, call in self.in_flight.values()), *session.recent])

    def check_found(self, session, found, result):
        count = int(found[2])
        expect(session.now in (count - 1, None), f"it began with {session.now}")
        expect(int(found[3]) == count, "list and count differ")
        expect(float(found[4]) == draws(count), f"random is not {draws(count)}")
        directory = self.server.here(directory_before(count))
        expect(found[5] == directory, f"not in {directory}")

    def check_state(self, session, call, status, found, result):
        died = not re.match(r"\[(ok|error|exit code 4)", status.line)
        state = BACK.sub("", status.state or "", count=1) or "kept"
        earlier = EARLIER.match(state)
        if earlier:
            self.died(session, int(earlier[1]))
            session.fall_back(int(earlier[1]))
        elif state.startswith("lost"):
            expect(died, "lost without a death")
            self.died(session, 0)
            session.restart()
        elif state in ("restored to the state before this call", "then restored to that state"):
            expect(died, "restored without a death")
            self.count_death()
            session.died()
        elif state.startswith("not yet restored"):  # the next result says what is back
            expect(died, "killed without a death")
            self.count_death()
            session.died()
            session.pending = True
            session.forget_steps()
        else:
            expect(re.match("kept|reset before the code|what the code then did is kept", state), "an unknown state")
            expect(not died or "interrupted" in state, "kept in spite of a death")
            if found:
                session.made(int(found[1]), int(found[2]), "restore" in call.arguments)
        self.tally[re.sub(r"\d+", "N", state)] += 1

    # --- the run ---

    def run(self, calls, seconds=None, enough=lambda: False):
        end = time.monotonic() + (seconds or 1e9)
        left = calls
        while left > 0 or self.in_flight:
            if time.monotonic() >= end or enough():
                left = 0
            open_ones = [session for session in self.sessions if len(session.sent) + session.fresh < self.depth]
            if left > 0 and open_ones and self.choice.random() < 0.6:
                self.send(self.choice.choice(open_ones), self.compose())
                left -= 1
            elif self.answers_are_due():
                self.receive()
            elif left <= 0 or not open_ones:
                self.close_with_ok()
        return self.tally

    def answers_are_due(self):
        return any(call.kind != "cancel" for _, call in self.in_flight.values())

    def close_with_ok(self):
        """Only cancelled calls have no response; a later call of each session shows that they have ended."""
        for session in self.sessions:
            if session.sent:
                self.send(session, Call("ok", *ENDS["ok"]))


def describe(session):
    return [session.describe(), *("   " + json.dumps(entry)[:600] for entry in session.trail)]


def explain(stress, error):
    sessions = [stress.checked] if stress.checked else stress.sessions
    return "\n".join([str(error), *(line for session in sessions for line in describe(session))])
