"""Figures, display() and image files: which are returned, their size and their name."""
import base64
import os
import zlib

from base import GuestCase, each_python


def png(width, height):
    def chunk(kind, data):
        body = kind + data
        return len(data).to_bytes(4, "big") + body + zlib.crc32(body).to_bytes(4, "big")

    head = width.to_bytes(4, "big") + height.to_bytes(4, "big") + b"\x08\x00\x00\x00\x00"
    rows = zlib.compress((b"\0" + b"\x80" * width) * height)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")


def side_of(path):
    with open(path, "rb") as file:
        data = file.read(24)
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    return max(int.from_bytes(data[16:20], "big"), int.from_bytes(data[20:24], "big"))


class Forms(GuestCase):
    def test_display_prints_in_order(self):
        reply = self.run_ok("print('a')\ndisplay([1, 2], 'text')\nprint('b')")
        self.assertEqual((reply.out, reply.value), ("a\n[1, 2]\ntext\nb\n", None))

    def test_markdown_is_the_text_form(self):
        self.run_ok("class M:\n    def _repr_markdown_(self): return '**bold**'")
        self.assertEqual(self.value("M()"), "**bold**")
        self.assertEqual(self.run_ok("display(M())").out, "**bold**\n")

    def test_base64_in_markdown_is_left_out(self):
        self.run_ok("class M:\n    def _repr_markdown_(self): return '![a](data:image/png;base64,' + 'A' * 4000 + ')'")
        self.assertEqual(self.value("M()"), "![a](data:image/png;base64,[4000 bytes left out])")

    def test_html_only_where_there_is_no_repr(self):
        self.run_ok("class H:\n    def _repr_html_(self): return '<style>x{}</style><p>a &lt; b</p>"
                    "<table><tr><td>1</td><td>2</td></tr></table>'\n"
                    "class R(H):\n    def __repr__(self): return 'plain'")
        self.assertEqual(self.value("H()"), "\na < b\n1\t2")
        self.assertEqual(self.value("R()"), "plain")
        self.run_ok("class S:\n    def _repr_html_(self): return '<script>' + 'var a = 1; ' * 40000 + '</script><p>the text</p><script>var b'")
        self.assertEqual(self.value("S()").strip(), "the text")

    def test_latex_and_json_where_there_is_no_repr(self):
        self.run_ok("class L:\n    def _repr_latex_(self): return '$x$'\n"
                    "class J:\n    def _repr_json_(self): return {'a': [1]}\n"
                    "class R(L):\n    def __repr__(self): return 'plain'")
        self.assertEqual(self.value("L()"), "$x$")
        self.assertEqual(self.value("J()"), "{'a': [1]}")
        self.assertEqual(self.value("R()"), "plain")

    def test_ipython_display_and_raw_forms(self):
        self.run_ok("class S:\n    def _ipython_display_(self): print('myself')\n"
                    "class F:\n    def _ipython_display_(self): 1 / 0\n    def __repr__(self): return 'F'")
        reply = self.run_ok("S()")
        self.assertEqual((reply.out, reply.value), ("myself\n", None))
        self.assertEqual(self.run_ok("display(S())").out, "myself\n")
        self.assertEqual(self.value("F()"), "F")
        self.assertEqual(self.run_ok("display({'text/markdown': '# a', 'text/html': 'b'}, raw=True)").out, "# a\n")

    def test_image_forms_become_images(self):
        self.run_ok("data = %r\nclass P:\n    def _repr_png_(self): return data\n"
                    "    def __repr__(self): return 'a picture'" % png(3, 2))
        reply = self.run_ok("P()")
        path = reply.image
        self.assertEqual(reply.value, "\na picture\n[image: %s]" % path)
        with open(path, "rb") as file:
            self.assertEqual(file.read(), png(3, 2))
        self.assertIn("+%s " % path, reply.files()[0])
        reply = self.run_ok("display(P(), P())")
        self.assertEqual(len(set(reply.all("image"))), 2)
        self.assertEqual(reply.out.count("[image: "), 2)

    def test_bundles_with_base64_and_metadata(self):
        text = base64.b64encode(png(2, 2)).decode()
        self.run_ok("class B:\n    def _repr_mimebundle_(self, include=None, exclude=None):\n"
                    "        return {'image/png': %r, 'text/plain': 'x'}, {}" % text)
        reply = self.run_ok("B()")
        self.assertEqual(len(reply.all("image")), 1)
        self.assertTrue(reply.value.startswith("\nx\n[image: "), reply.value)

    def test_svg_is_kept_as_a_file(self):
        self.run_ok("class S:\n    def _repr_svg_(self): return '<svg/>'\n    def __repr__(self): return 'drawing'")
        reply = self.run_ok("S()")
        self.assertEqual(reply.all("image"), [])
        with open(reply.value.split("[svg: ")[1][:-1]) as file:
            self.assertEqual(file.read(), "<svg/>")

    def test_forms_that_raise_or_lie_are_skipped(self):
        self.run_ok("class Bad:\n    def _repr_png_(self): raise ValueError\n    def _repr_markdown_(self): return 5\n"
                    "    def _repr_jpeg_(self): return b'none'\n    def __repr__(self): return 'bad'")
        reply = self.run_ok("Bad()")
        self.assertEqual((reply.value, reply.all("image")), ("bad", []))
        self.run_ok("class Any:\n    def __getattr__(self, name): return lambda *a: 'any'\n"
                    "    def __repr__(self): return 'mock'")
        self.assertEqual(self.value("Any()"), "mock")

    def test_image_files_of_the_cell_come_back(self):
        reply = self.run_ok("data = %r\nopen('made.png', 'wb').write(data)\nNone" % png(8, 8))
        self.assertEqual(reply.all("image"), [os.path.join(os.path.realpath(self.guest.directory.name), "made.png")])
        self.assertEqual(self.run_ok("1").all("image"), [])
        reply = self.run_ok("open('fake.png', 'w').write('no image')\nimport os\nos.mkfifo('pipe.png')")
        self.assertEqual((reply.all("image"), reply.all("note")), ([], ["fake.png is damaged or no image, so it is not shown"]))
        for data in (b"\x89PNG\r\n\x1a\n" + b"x" * 99, b"\xff\xd8\xff"):
            reply = self.run_ok("open('broken.png', 'wb').write(%r)" % data)
            self.assertEqual((reply.all("image"), reply.note), ([], "broken.png is damaged or no image, so it is not shown"))
        reply = self.run_ok("open('cut.png', 'wb').write(%r)" % png(4000, 50)[:-30])
        self.assertEqual((reply.all("image"), reply.note), ([], "cut.png is incomplete, so it is not shown"))

    def test_number_and_size_are_limited(self):
        reply = self.run_ok("for i in range(9): open('many%%d.png' %% i, 'wb').write(%r + bytes([i]))" % png(8, 8))
        self.assertEqual(len(reply.all("image")), 4)

    def test_a_large_image_is_scaled_down_without_new_imports(self):
        reply = self.run_ok("open('wide.png', 'wb').write(%r)\nNone" % png(4000, 2))
        if self.value("import importlib.util\nimportlib.util.find_spec('PIL') is None") == "True":
            self.assertEqual(reply.all("image"), [])
            self.assertIn("wide.png is too large to show", reply.note)
        else:
            self.assertEqual(side_of(reply.image), 1568)
            self.assertEqual(reply.note, None)
        self.assertEqual(self.value("import sys\n'PIL' in sys.modules"), "False")

    def test_an_image_that_takes_too_long_is_left_to_read_file(self):
        if self.value("import importlib.util\nimportlib.util.find_spec('PIL') is None") == "True":
            self.skipTest("pillow: not installed for this interpreter")
        reply = self.run_ok("import os, signal, threading, time\n"
                            "def stop(pid=os.getpid()):\n"
                            "    for _ in range(1000):\n"
                            "        for child in open('/proc/%%d/task/%%d/children' %% (pid, pid)).read().split():\n"
                            "            if b'convert.py' in open('/proc/%%s/cmdline' %% child, 'rb').read():\n"
                            "                return os.kill(int(child), signal.SIGSTOP)\n"
                            "        time.sleep(0.002)\n"
                            "threading.Thread(target=stop).start()\n"
                            "open('late.png', 'wb').write(%r)\nNone" % png(4000, 2))
        self.assertEqual(reply.all("image"), [])
        self.assertIn("read_file shows late.png", reply.note)


class Figures(GuestCase):
    def setUp(self):
        super().setUp()
        if self.session.run("import matplotlib").status == "error":
            self.skipTest("matplotlib: not installed for this interpreter")

    def test_open_figures_come_back_and_are_closed(self):
        reply = self.run_ok("import matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.figure()\nplt.bar([1], [2])\nNone")
        self.assertEqual((len(reply.all("image")), reply.err), (2, ""))
        self.assertEqual([len(reply.files()), self.value("plt.get_fignums()")], [2, "[]"])
        self.assertEqual(self.run_ok("1").all("image"), [])

    def test_show_returns_the_open_figures(self):
        reply = self.run_ok("import matplotlib\nmatplotlib.use('Agg')\nimport matplotlib.pyplot as plt\n"
                            "for i in range(3):\n    plt.plot([i])\n    plt.show()")
        self.assertEqual((len(reply.all("image")), reply.err), (3, ""))
        reply = self.run_ok("fig, ax = plt.subplots(); ax.plot([1]); fig.show()")
        self.assertEqual((len(reply.all("image")), reply.err), (1, ""))

    def test_a_saved_figure_comes_back_once(self):
        reply = self.run_ok("import matplotlib.pyplot as plt\nplt.plot([1])\nplt.savefig('s.png')")
        self.assertEqual([os.path.basename(path) for path in reply.all("image")], ["s.png"])
        reply = self.run_ok("plt.plot([1])\nplt.savefig('/tmp/sandpiper-test.png')\nplt.show()")
        self.assertEqual(reply.all("image"), ["/tmp/sandpiper-test.png"])
        os.remove("/tmp/sandpiper-test.png")

    def test_sizes_are_bounded(self):
        reply = self.run_ok("import matplotlib.pyplot as plt, random\nfor i in range(6):\n"
                            "    plt.figure(figsize=(30, 20), dpi=200)\n"
                            "    plt.imshow([[random.random() for x in range(300)] for y in range(200)])\nNone")
        paths = reply.all("image")
        self.assertEqual(len(paths), 4)
        self.assertTrue(all(side_of(path) <= 1568 for path in paths))
        self.assertLess(sum(map(os.path.getsize, paths)), 600000)

    def test_a_figure_as_value_is_returned_once(self):
        reply = self.run_ok("import matplotlib.pyplot as plt\nfig, ax = plt.subplots()\nax.plot([1])\nfig")
        self.assertEqual((len(reply.all("image")), reply.value), (1, "<Figure size 640x480 with 1 Axes>"))

    def test_figures_of_a_failed_cell_and_drawing_that_raises(self):
        reply = self.session.run("import matplotlib.pyplot as plt\nplt.plot([1])\n1 / 0")
        self.assertEqual((reply.status, len(reply.all("image"))), ("error", 1))
        reply = self.session.run("plt.plot([1])\nplt.title('$\\\\frac{$')\nNone")
        self.assertEqual((reply.status, reply.all("image")), ("ok", []))
        self.assertIn("figures could not be reported", reply.note)
        self.assertEqual(self.value("plt.get_fignums()"), "[]")


each_python(globals())
