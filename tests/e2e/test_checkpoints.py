"""The promise that state survives: whatever ends the interpreter, at most the one call is lost."""
import random
import unittest

from client import Case, Server

DEATHS = {
    "exit code": "import os; os._exit(3)",
    "segmentation fault": "import ctypes; ctypes.string_at(0)",
    "abort": "import os; os.abort()",
    "kill": "import os; os.kill(os.getpid(), 9)",
    "lost descriptors": "import os; os.closerange(0, 1000)",
    "no memory": "filler = []\nwhile True: filler.append(bytearray(8 << 20))",
}
STUCK = "import os, signal; os.kill(os.getpid(), signal.SIGSTOP)"


class TakeOver(Case):
    def test_each_death_loses_only_its_call(self):
        with Server("--memory", "256M") as server:
            self.assert_ok(server.python("kept = {'rows': [1, 2, 3]}\nimport json"))
            for name, code in DEATHS.items():
                with self.subTest(death=name):
                    result = server.python("kept['rows'].append('lost')\n" + code)
                    self.assertTrue(result.is_error)
                    self.assertIn("state: restored to before this call", result.status.line)
                    self.assert_prints(server.python("print(kept, json.dumps(1))"),
                                       "{'rows': [1, 2, 3]} 1")

    def test_twice_in_a_row(self):
        with Server() as server:
            self.assert_ok(server.python("kept = 5"))
            for _ in range(3):
                self.assertIn("restored to before this call",
                              server.python(DEATHS["kill"]).status.line)
            self.assert_prints(server.python("print(kept)"), "5")

    def test_a_process_that_stops_itself(self):
        with Server() as server:
            self.assert_ok(server.python("kept = 5"))
            self.assertIn("state: restored to before this call",
                          server.python(STUCK, timeout_s=0.3).status.line)
            self.assert_prints(server.python("print(kept)"), "5")

    def test_random_state_and_directory_come_back(self):
        with Server() as server:
            self.assert_ok(server.python("import os, random\nos.mkdir('deep'); os.chdir('deep')\n"
                                         "random.seed(7); random.random()\n"
                                         "copy = random.Random(); copy.setstate(random.getstate())"))
            server.python("random.random(); os.chdir('/'); os._exit(1)")
            self.assert_prints(server.python("print(os.getcwd(), random.random() == copy.random())"),
                               server.here("/work/deep True"))

    def test_open_files_stay_usable(self):
        with Server() as server:
            self.assert_ok(server.python("log = open('log.txt', 'a'); log.write('one\\n'); log.flush()"))
            server.python("import os; os._exit(1)")
            self.assert_ok(server.python("log.write('two\\n'); log.flush()"))
            self.assert_prints(server.python("print(open('log.txt').read().split())"),
                               "['one', 'two']")

    def test_what_the_dead_call_started_is_gone(self):
        with Server() as server:
            self.assert_ok(server.python("kept = 5"))
            server.python("import subprocess, os\n"
                          "subprocess.Popen(['setsid', 'sh', '-c', 'while :; do echo x >> alive; "
                          "sleep 0.05; done'])\nimport time; time.sleep(0.3)\nos._exit(1)")
            self.assert_prints(server.python("import os, time\na = os.path.getsize('alive')\n"
                                             "time.sleep(0.5); print(os.path.getsize('alive') == a)"),
                               "True")

    def test_waiting_for_children_does_not_meet_the_checkpoint(self):
        with Server() as server:
            self.assert_ok(server.python("import os"))
            self.assert_prints(server.python("try: os.wait()\n"
                                             "except ChildProcessError: print('no child')",
                                             timeout_s=3), "no child")

    def test_a_killed_checkpoint_is_told(self):
        with Server() as server:
            self.assert_ok(server.python("kept = 5"))
            self.assert_ok(server.python("import os; os.kill(-1, 9)"))  # all but itself
            self.assertIn("restored", server.python("os._exit(1)").status.line)
            self.assert_prints(server.python("print(kept)"), "5")
            result = server.python("os.kill(-1, 9); os._exit(1)")
            self.assertIn("state: lost", result.status.line)
            self.assertTrue(server.python("kept").is_error)

    def test_two_sessions_die_apart(self):
        with Server() as server:
            for name in ("a", "b"):
                self.assert_ok(server.python(f"kept = {name!r}", session=name))
            server.python(DEATHS["kill"], session="a")
            server.python(DEATHS["abort"], session="b")
            for name in ("a", "b"):
                self.assert_prints(server.python("print(kept)", session=name), name)

    def test_random_deaths(self):
        choice = random.Random(20261121)
        names = [name for name in DEATHS if name != "no memory"]
        with Server() as server:
            count = 0
            self.assert_ok(server.python("count = 0"))
            for _ in range(150):
                if choice.random() < 0.5:
                    count += 1
                    self.assert_ok(server.python("count += 1"))
                else:
                    result = server.python("count += 100\n" + DEATHS[choice.choice(names)])
                    self.assertIn("restored to before this call", result.status.line)
            self.assert_prints(server.python("print(count)"), str(count))


class Reset(Case):
    def test_reset_is_not_undone_by_a_checkpoint(self):
        with Server() as server:
            self.assert_ok(server.python("kept = 5"))
            self.assertIn("state: reset",
                          server.python("'kept' in globals()", reset=True).status.line)
            server.python(DEATHS["kill"])
            self.assert_prints(server.python("print('kept' in globals())"), "False")


if __name__ == "__main__":
    unittest.main()
