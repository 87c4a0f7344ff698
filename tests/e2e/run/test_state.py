"""The state that a session keeps from call to call, and how sessions differ."""
import unittest

from client import Case, Server, Shared, need_userns


class State(Shared):
    def test_variables_functions_classes_and_imports_persist(self):
        self.assert_ok(self.server.python("import math\nx = 5\ndef f(n): return n * x\n"
                                          "class A:\n    def g(self): return 'g'\na = A()"))
        self.assert_prints(self.server.python("print(f(2), a.g(), math.pi > 3, A().g())"),
                           "10 g True g")

    def test_an_exception_keeps_what_was_done_before_it(self):
        result = self.server.python("before = 1\nraise ValueError('no')\nafter = 1")
        self.assert_kind(result, "error")
        self.assertEqual(result.status.state, "kept")
        self.assert_prints(self.server.python("print(before, 'after' in globals())"), "1 False")

    def test_sessions_have_their_own_variables_and_share_the_workspace(self):
        self.server.python("own = 1; open('shared.txt', 'w').write('both')", session="one")
        result = self.server.python("print('own' in globals(), open('shared.txt').read())",
                                    session="two")
        self.assert_prints(result, "False both")

    def test_reset_starts_afresh(self):
        self.server.python("gone = 1", session="r")
        result = self.server.python("print('gone' in globals())", session="r", reset=True)
        self.assert_prints(result, "False")

    def test_classes_of_a_cell_can_be_pickled_and_inspected(self):
        self.server.python("class P:\n    x = 1")
        result = self.server.python("import pickle, inspect\n"
                                    "print(pickle.loads(pickle.dumps(P())).x)\n"
                                    "print(inspect.getsource(P).strip())")
        self.assert_prints(result, "1\nclass P:\n    x = 1")

    def test_await_and_asyncio_run_both_work(self):
        self.assert_prints(self.server.python("import asyncio\nawait asyncio.sleep(0)\nprint(1)"),
                           "1")
        self.assert_prints(self.server.python(
            "async def main(): return 7\nprint(asyncio.run(main()))"), "7")

    def test_what_was_written_into_an_open_file_is_there(self):
        result = self.server.python("import os\nr, w = os.pipe(); w = os.fdopen(w, 'w'); w.write('held')\n"
                                    "text = open('open.txt', 'w'); text.write('one'); raw = open('raw.bin', 'wb'); raw.write(b'two')\n"
                                    "shut = open('shut.txt', 'w'); shut.close(); bare = open('bare.txt', 'w'); bare.detach()")
        self.assertRegex(result.status.line, r"open\.txt \(3 B\).*raw\.bin \(3 B\)")
        self.assertEqual(self.server.read("open.txt").text, "one")
        self.assert_prints(self.server.python("os.set_blocking(r, False)\ntry: os.read(r, 9)\nexcept BlockingIOError: print('held')"), "held")
        self.assert_ok(self.server.python("w.close(); text.close(); raw.close()"))

    def test_main_is_the_module_name_and_the_workspace_the_directory(self):
        self.server.write("module_of_mine.py", "value = 12\n")
        self.assert_prints(self.server.python(
            "import module_of_mine\nprint(__name__, module_of_mine.value)"), "__main__ 12")


class Sessions(Case):
    def test_parallel_ordered_and_one_workspace(self):
        need_userns()
        with Server() as server:
            code = ("import os, time\nopen({me!r}, 'w').close()\nend = time.time() + 15\n"
                    "while not os.path.exists({other!r}) and time.time() < end: time.sleep(.01)\nprint(os.path.exists({other!r}))")
            calls = [server.start_call("run_python", code=code.format(me=me, other=other), session=me)
                     for me, other in (("a", "b"), ("b", "a"))]
            order = [server.start_call("run_python", code=f"print({n}); got = globals().get('got', []) + [{n}]", session="a")
                     for n in range(5)]
            self.assertEqual([server.finish_call(call).output for call in calls], ["True", "True"])
            self.assertEqual([server.finish_call(call).output for call in order], list("01234"))
            self.assert_prints(server.python("print(got)", session="a"), "[0, 1, 2, 3, 4]")
            self.assertTrue(server.python("got", session="b").is_error)

    def test_too_many_are_refused_with_a_message(self):
        need_userns()
        with Server() as server:
            results = [server.python("1", session=f"s{n}") for n in range(18)]
            refused = [result for result in results if result.is_error]
            self.assertTrue(1 <= len(refused) <= 3)
            self.assertIn("at most 16", refused[0].text)
            self.assert_prints(server.python("print(1)", session="s0"), "1")


class WarmServer(Shared):
    def test_a_new_session_of_a_warm_server_is_quick(self):
        self.server.python("1")
        for name in ("q1", "q2", "q3"):
            self.assert_ok(self.server.python("1", session=name))


if __name__ == "__main__":
    unittest.main()
