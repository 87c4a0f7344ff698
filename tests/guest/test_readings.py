"""Texts that are no Python as they were sent: taken where it is certain what they mean, named where it is not."""
from base import GuestCase, each_python


class Readings(GuestCase):
    def taken(self, code, out, note):
        reply = self.run_ok(code)
        self.assertEqual((reply.out, reply.all("note")), (out, [note]), code)

    def not_taken(self, code, hint):
        reply = self.session.run(code)
        self.assertEqual((reply.error_type, reply.out, reply.all("note")), ("SyntaxError", "", []), code)
        self.assertIn(hint, reply.hint or "", code)

    def test_html_entities(self):
        note = "HTML entities (%s) were replaced"
        self.taken("if 1 &lt; 2 and 2 &gt; 1: print(&quot;x&quot;)", "x\n", note % "&lt;, &gt;, &quot;")
        self.taken("print(&#39;a&#39;, 3 &amp; 1) # don't", "a 1\n", note % "&#39;, &amp;")
        self.taken("if 1 &amp;lt; 2: print('twice')", "twice\n", note % "&amp;" + ", " + note % "&lt;")
        self.assertEqual(self.run_ok("print('&lt;b&gt;')").out, "&lt;b&gt;\n")
        self.not_taken("if 1 &lt; 2: print('<b>')", "write `<` for `&lt;`")
        self.not_taken("x = '&lt;' +", "HTML entities")
        for inside in ("'&lt;b&gt;'", "&quot;&lt;&quot;", "&#x27;&amp;lt;&#x27;", "'say &quot;a&quot;'", "f'{1:&gt;3}'", "'''a\n&lt;'''", r"'\'&lt;'"):
            self.not_taken("if 1 &lt; 2: print(%s)" % inside, "HTML entities")

    def test_escapes(self):
        quotes, lines = 'escapes (\\") were replaced', "escapes (\\n) were replaced"
        self.taken(r'print(\"hi\")', "hi\n", quotes)
        self.taken('print(\\"a\\nb\\")\nprint(\\"c\\")', "a\nb\nc\n", quotes)
        self.taken(r"import os\nfor i in range(2):\n    print(i)", "0\n1\n", lines)
        self.taken(r'x = 1\r\nprint(\"a\", x)', "a 1\n", quotes)
        self.taken(r"print(\'it\')", "it\n", "escapes (\\') were replaced")
        self.not_taken(r's = "a\nb"\nprint(s)', "escaped twice, where a new line should be")
        for code in (r'x = 1\nprint(\"a\\nb\", x)', r'print(\"a\\\\nb\")', r'print(\"a\rb\")', r'print(r\"C:\temp\")', r"s = r'C:\temp'\nprint(s)"):
            self.not_taken(code, "escaped twice")
        self.not_taken('print(\\"a\\")\nprint("b")', "escaped twice, where a quote should be")
        self.not_taken('print(\\"a\\\\nb\\")\nprint(1)', "escaped twice")
        self.assertEqual(self.run_ok("x = \\\n 3\nprint(x)").out, "3\n")

    def test_fences(self):
        alone = "only the code in the fence was run"
        self.taken("Here it is:\n\n```python\nprint(1)\n```\nThis prints - as it should - 1.", "1\n", alone)
        self.taken("```python\na = 2\n```\n\n```py\nprint(a)\n```", "2\n", "the code of 2 fences was run")
        self.taken("So:\n~~~\nprint(3)\n~~~\n", "3\n", alone)
        self.taken("~~~\nprint(3)\n~~~\n", "3\n", alone)
        self.assertEqual(self.session.run("First:\n```python\nx = 1\n1 / 0\n```").error_line, "4")
        self.not_taken("This:\n```python\na = 1\n```\nor that:\n```python\na = 2\n```", "4 lines of code fences")
        self.not_taken("x = 3\n```python\nprint(x)\n```", "code fences")
        self.not_taken("```python\nprint(1)", "code fence")
        self.not_taken("```bash\nls\n```", "a cell that begins with %%bash")
        self.not_taken("```json\n{}\n```", "the fence is marked json: send Python alone")
        fence = "\n```python\nprint(1)\n```\n"
        self.taken("Run (as always) this:" + fence + "Result: 1\nWith `open()` it is so, too.", "1\n", alone)
        for before, after in (("s = '''", "'''\nx = = 1"), ('doc = """Usage:', ""), ('s = "Usage:', '"'), ("f(a,", ")"), ("x = [", "]"), ("def f(x):\n    x = = 1", ""),
                              ("for i in range(3):  # all\n    i = = 1", ""), ("else:", ""), ("f = open(p) as", ""), ("print('Usage:", "')")):
            self.not_taken(before + fence + after, "")
        self.assertEqual(self.run_ok("```python\ns = '''\n```\n'''\nprint(len(s))\n```").out, "5\n")

    def test_transcripts(self):
        note = "prompts and output of a transcript were left out"
        self.taken(">>> for i in range(2):\n...     print(i)\n... \n0\n1\n>>> print('end')\nend", "0\n1\nend\n", note)
        self.taken("In [3]: y = 4\n\nIn [4]: def f():\n   ...:     return y\n   ...: \n\nIn [5]: print(f())\n4\n\nOut[6]: 5", "4\n", note)
        self.taken("  >>> print(1)\n  1\n", "1\n", note)
        self.assertEqual(self.session.run(">>> 1\n1\n>>> 1 / 0").error_line, "3")
        self.not_taken("x = 1\n>>> x", "is a prompt of a transcript")
        for shown in ("4", "'abc'", "[1, 2,\n 3]", "   a  b\n0  1  2\n..  ...", "Result: 4", "Point(x=1)", "all is well:", "lr=0.1 loss=2", "\n",
                      'Traceback (most recent call last):\n  File "a.py", line 1, in f\n    x = g()\n    raise KeyError(1)\nKeyError: 1'):
            self.taken(">>> print(1)\n%s\n>>> print(2)" % shown, "1\n2\n", note)

    def test_transcripts_that_may_have_code_without_a_prompt(self):
        for code in (">>> import math\ndef area(r):\n    return r\nprint(area(2))", ">>> x = 1\n    >>> y = 2\n    >>> print(x + y)",
                     ">>> x = 1\n>>>y = 2\n>>> print(x)", ">>> if 0: y = 1\nelse: y = 2", ">>> print(1)\nx = 2", ">>> print(1)\ns = [", ">>> print(1)\nprint(2,",
                     ">>> for i in range(2):\n...     print(i)\n    print(i)", ">>> for i in 'a':\n...     print(i)\n...print(2)", ">>> import os\nos.getpid()",
                     ">>> print(1)\n1\n... y = 2", ">>> print(1)\nif x:\n    y = 1", ">>> x = 1\n!ls", ">>> print(1)\nIn [2]:x = 1",
                     ">>> print(1)\nKeyError: 1\ny = 2"):
            self.not_taken(code, "is a prompt of a transcript")

    def test_one_within_another(self):
        self.taken("Run:\n```python\nif 1 &lt; 2: print(1)\n```", "1\n",
                   "only the code in the fence was run, HTML entities (&lt;) were replaced")

    def test_what_is_no_such_text_stays_as_it_is(self):
        self.assertIsNone(self.session.run("s = '''\n```\na\n```\n'''\nx = = 1").hint)
        for code in ("x = = 1", "print('a'", "def f(:\n    pass", "hello there", "print(“a”)"):
            reply = self.session.run(code)
            self.assertEqual((reply.error_type, reply.all("note")), ("SyntaxError", []), code)
        self.assertIn("typographic quotes", reply.hint)

    def test_what_only_the_compiler_refuses_is_no_other_text(self):
        for code in ("return 5", "yield 5", "break", "continue", "nonlocal x", "def f(): return await g()", "def f(a,a): pass", "x=1; global x",
                     "class A: return 1", "a, *b, *c = x", "__debug__ = 1", "print('a\\tb'); break", "  x = 1\n  return x",
                     "So:\n```\nreturn 5\n```"):
            reply = self.session.run(code)
            self.assertEqual(reply.error_type, "SyntaxError", code)
            self.assertEqual(reply.all("note"), ["only the code in the fence was run"] if "```" in code else [], code)
            self.assertEqual((reply.traceback.count("SyntaxError: "), reply.traceback.count("During handling")), (1, 0), reply.traceback)
            self.assertIn("\n    %s\n" % code.strip("\n`").split("\n")[-1].strip(), reply.traceback)

    def test_imports_are_seen(self):
        self.assertEqual(self.session.lacks("So:\n```python\nimport sandpiper_none\n```"), ["sandpiper_none"])

    def test_the_source_is_the_code_that_ran(self):
        self.run_ok(r'def f():\n    return \"a\"\n')
        self.assertEqual(self.run_ok("import inspect\nprint(inspect.getsource(f))").out, 'def f():\n    return "a"\n\n')


class Commands(GuestCase):
    def hint(self, code):
        reply = self.session.run(code)
        self.assertIn(reply.error_type, ("SyntaxError", "NameError"), code)
        return reply.hint or ""

    def test_lines_for_a_shell(self):
        for line in ("ls", "ls -la", "ls /tmp", "ls *.py", "cat a.txt | head -3", "python3 -m venv x"):
            self.assertTrue(self.hint(line).endswith("is meant: !" + line), line)
        self.assertIn("!ls -l", self.hint("$ ls -l"))
        self.assertIn("%cd dir", self.hint("cd dir"))
        self.assertIn("%cd /tmp", self.hint("cd /tmp"))
        self.assertIn("%env X=1", self.hint("export X=1"))
        self.assertIn("no system packages", self.hint("apt install x"))
        for code in ("#!/bin/bash\necho hi", "#!/usr/bin/env sh\nls -la"):
            self.assertIn("begins with %%bash", self.hint(code))
        self.assertIn("code cannot install packages", self.hint("$ pip install pandas"))
        for code in ("df", "python\nprint(1)", "x = missing - 1", "def g():\n    return sort\ng()", "time.sleep(1)", "print 'x'", "ls = = 1", "import os os"):
            self.assertNotIn("shell", self.hint(code), code)

    def test_commands_that_change_only_their_shell(self):
        self.assertIn("%env X=1", self.hint("!export X=1"))
        self.assertIn("os.environ[...]", self.hint("!export X=1"))
        self.assertIn("%%bash", self.hint("!source venv/bin/activate"))
        self.assertIn("%cd /tmp", self.hint("!cd /tmp"))
        self.assertEqual(self.run_ok("!export X=2; echo $X").out, "2\n")
        self.assertEqual(self.run_ok("!cd / && pwd").out, "/\n")


each_python(globals())
