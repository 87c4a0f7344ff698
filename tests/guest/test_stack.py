"""Code sees nothing of the driver in the stack or in the time at which values are freed."""
from base import GuestCase, each_python

OWN = "guest/"


class Stack(GuestCase):
    def output(self, code):
        reply = self.session.run(code)
        text = "".join(part for part in (reply.out, reply.err, reply.value, reply.traceback) if part)
        self.assertNotIn(OWN, text)
        self.assertNotIn("driver.py", text)
        return text

    def test_traceback_lists_only_the_frames_of_code(self):
        text = self.output("import traceback\ndef f():\n    traceback.print_stack()\nf()")
        self.assertEqual([line for line in text.splitlines() if "File" in line],
                         ['  File "<cell 1>", line 4, in <module>', '  File "<cell 1>", line 3, in f'])
        self.assertEqual(self.output("len(traceback.extract_stack())"), "1")
        self.assertIn("walk_stack", self.output("repr(traceback.walk_stack)"))

    def test_inspect_and_logging_show_only_the_frames_of_code(self):
        self.assertEqual(self.output("import inspect\ndef g(): return [i.function for i in inspect.stack()]\ng()"),
                         "['g', '<module>']")
        self.assertIn('File "<cell 2>"', self.output("import logging\nlogging.warning('x', stack_info=True)"))

    def test_a_display_method_is_called_from_the_frames_of_the_cell(self):
        self.assertEqual(self.output("import traceback\nclass R:\n    def __repr__(self):\n"
                                     "        return str([f.name for f in traceback.extract_stack()])\n"
                                     "display(R())"), "['<module>', '__repr__']\n")

    def test_values_of_an_exception_are_freed_in_the_cell_of_the_next_one(self):
        text = self.output("import warnings\nclass W:\n    def __del__(self): warnings.warn('freed', stacklevel=2)\n"
                           "def f():\n    w = W()\n    1 / 0\n\nf()")
        self.assertNotIn("freed", text)  # sys.last_traceback leads to it
        text = self.output("async def g(): pass\nraise ValueError(g())")
        self.assertRegex(text, "<cell 2>:2: UserWarning: freed")
        self.assertIn("<cell 3>:1: RuntimeWarning: coroutine 'g' was never awaited", self.output("1 / 0"))

    def test_the_last_value_is_freed_in_the_cell_that_replaces_it(self):
        self.run_ok("async def g(): pass\ng()")
        self.assertIn("<cell 2>:1: RuntimeWarning: coroutine 'g' was never awaited", self.output("1"))


each_python(globals())
