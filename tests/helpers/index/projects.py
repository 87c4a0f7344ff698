"""The packages that the tests install. Each function fills a directory and can be used alone."""
import glob
import pathlib
import shutil
import stat

from .wheels import OTHER_PLATFORM, Sdist, Wheel, backend, extension

FILE, LINK, SETUID = stat.S_IFREG | 0o644, stat.S_IFLNK | 0o777, stat.S_IFREG | 0o6755
MIB = 1 << 20


def save(directory, *distributions):
    pathlib.Path(directory).mkdir(parents=True, exist_ok=True)
    return [made.save(directory) for made in distributions if made]


def honest(directory):
    """Pure wheels with dependencies, extras, markers, several versions and pins that contradict each other."""
    return save(
        directory,
        *(Wheel("plain", version) for version in ("1.0", "1.1", "2.0", "2.1rc1")),
        Wheel("shared", "1.5"), Wheel("shared", "2.5"),
        Wheel("wants-old", requires=["shared<2"]), Wheel("wants-new", requires=["shared>=2"]),
        Wheel("parent", "1.2", {"parent/__init__.py": "from plain import VERSION\n"}, requires=["plain>=1.1"],
              extras={"more": ["shared"], "old": ["shared<2"]}, scripts={"parent-tool": "parent:VERSION"}),
        Wheel("marked", requires=["plain; python_version < '3'", "shared; python_version >= '3'"]),
        Wheel("lost-child", requires=["no-such-package"]),
        Wheel("spaced-one", files={"spaced/one/__init__.py": "", "spaced/_hidden.py": ""}),
        Wheel("spaced-two", files={"spaced/two/__init__.py": ""}),
        Wheel("of-the-future", "3.0", python=">=3.99"),
        Wheel("elsewhere", "1.0", tag=OTHER_PLATFORM),
        Wheel("with-data", files={"with_data.py": "",
                                  "with_data-1.0.data/scripts/with-data": "#!python\nprint('ran')\n",
                                  "with_data-1.0.data/data/share/with-data/table.txt": "1\n",
                                  "with_data-1.0.data/purelib/with_data_more.py": ""}),
        extension("compiled"),
    )


def sources(directory):
    """Source archives: one that builds, one that needs a wheel of the index, one that fails, one with a wheel too."""
    built = Wheel("from-source", requires=["plain"])
    return save(
        directory,
        Sdist("from-source", backend=backend(built)),
        Sdist("with-tool", needs=["plain"], backend=backend(Wheel("with-tool"), "import plain")),
        Sdist("unbuildable", backend="raise SystemExit('compiler: no such thing')\n"),
        Wheel("needs-source", requires=["from-source"]),
        Wheel("both-kinds", "1.0"), Sdist("both-kinds", "2.0", backend=backend(Wheel("both-kinds", "2.0"))),
    )


SPY = """
import glob, json, os, socket, tempfile
stage = os.path.dirname(tempfile.gettempdir())
store = os.path.dirname(stage)  # of the server, where the directories are shown as they lie
seen = {"stage": stage, "environment": dict(os.environ), "files": {}, "network": [], "planted": []}
for address in [("127.0.0.1", 3128), ("127.0.0.1", 80), ("10.0.0.1", 80), ("169.254.169.254", 80), ("::1", 80)]:
    try:
        socket.create_connection(address, 2).close()
        seen["network"].append(address)
    except OSError:
        pass
for pattern in ("/cache/*", store + "/../../download*/*", "/index-cert", "/constraint", "/find-links/*", "/root/*", "/home/*"):
    seen["files"][pattern] = glob.glob(pattern)
for target in ("/packages/planted", "/cache/planted", store + "/layers/planted", store + "/../../download/planted",
               stage + "/built/plain-9.0-py3-none-any.whl", stage + "/wheels/plain-9.0-py3-none-any.whl",
               stage + "/new/planted.py", stage + "/home/.netrc"):
    try:
        os.makedirs(os.path.dirname(target), exist_ok=True)
        open(target, "w").write("planted")
        seen["planted"].append(target)
    except OSError:
        pass
print("SEEN " + json.dumps(seen), flush=True)
"""


def spying(name):
    """An sdist whose build tries the network, explores its sandbox, plants files, and prints the outcome."""
    return Sdist(name, backend=backend(Wheel(name, requires=["plain"]), SPY))


def false_pillow():
    """Modules that replace Pillow's: each image becomes 77x33 pixels, or 9000x33 if its name contains huge."""
    return {
        "__init__": "",
        "ImageOps": "def exif_transpose(image):\n    return image\n",
        "Image": """
import contextlib
import zlib

def chunk(data):
    return (len(data) - 4).to_bytes(4, 'big') + data + zlib.crc32(data).to_bytes(4, 'big')

class Image(contextlib.nullcontext):
    width, height, mode, format = 9, 9, 'RGB', 'PNG'
    draft = thumbnail = lambda *_: None
    __enter__ = convert = lambda self, *_: self

    def save(self, file, kind):
        side = 9000 if 'huge' in self.path else 77
        file.write(b'\\x89PNG\\r\\n\\x1a\\n' + chunk(b'IHDR' + side.to_bytes(4, 'big') + bytes([0, 0, 0, 33, 8, 2, 0, 0, 0])) + chunk(b'IEND'))

def open(path):
    image = Image()
    image.path = path
    return image
"""}


def hostile(directory):
    """Each wheel tries one thing; `hostile_NAME` is the distribution."""
    gone = "../../../../../../../../tmp/hostile-was-here"
    return save(
        directory,
        Wheel("hostile-traversal", raw=[(gone, b"x", FILE)]),
        Wheel("hostile-dots", raw=[("hostile_dots/../../dots.py", b"x", FILE)]),
        Wheel("hostile-absolute", raw=[("/tmp/hostile-was-here", b"x", FILE)]),
        Wheel("hostile-backslash", raw=[("..\\..\\hostile-was-here", b"x", FILE)]),
        Wheel("hostile-nul", raw=[("nul\0.py", b"x", FILE)]),
        Wheel("hostile-newline", raw=[("line\nbreak.py", b"x", FILE)]),
        Wheel("hostile-long", raw=[("l" * 300 + ".py", b"x", FILE)]),
        Wheel("hostile-symlink", raw=[("escape", b"/etc", LINK), ("escape/passwd.py", b"x", FILE)]),
        Wheel("hostile-setuid", raw=[("tool.sh", b"#!/bin/sh\nid\n", SETUID)]),
        Wheel("hostile-data", raw=[("hostile_data-1.0.data/data/../../../hostile-was-here", b"x", FILE)]),
        Wheel("hostile-pth", files={"hostile_pth.py": "", "hostile.pth": "import os; os.environ['PTH'] = 'ran'\n"}),
        Wheel("hostile-site", files={"hostile_site.py": "", "sitecustomize.py": "raise SystemExit(3)\n",
                                     "usercustomize/__init__.py": "raise SystemExit(3)\n"}),
        Wheel("hostile-two-infos", files={"hostile_two_infos.py": "", "plain-9.9.dist-info/METADATA": "Name: plain\n"}),
        # Names of the standard library; each interpreter imports some of them at its start.
        Wheel("hostile-names", scripts={"hostile-names": "hostile_names:main"}, files={
            "hostile_names.py": "import encodings, json, os, re, site, _socket\ndef main():\n    print('as wanted')\n"
                                "if __name__ == '__main__':\n    main()\n",
            **{f"{name}.py": f"raise SystemExit('{name} of a package')\n"
               for name in ("os", "site", "re", "_socket", "encodings/__init__", "json/__init__", "collections/__init__")}}),
        Wheel("hostile-pil", files={f"PIL/{name}.py": text for name, text in false_pillow().items()}),
        # Names that pip itself imports if they exist.
        *(Wheel(name, files={f"{name}.py": "import os\nos.environ['HIJACKED'] = '1'\nraise SystemExit('hijacked')\n"})
          for name in ("keyring", "truststore", "socks", "brotli", "simplejson")),
        Wheel("hostile-source", files={"hostile_source.py": "(" * 5000 + ")" * 5000 + "\n", "bad.py": "def (\n"}),
    )


def bomb(directory, size=256 * MIB):
    """A small file that unpacks to `size` bytes of zeros."""
    return save(directory, Wheel("bomb", files={"bomb.py": "", "zeros.bin": bytes(size)}))


def many(directory, count=20000):
    files = {f"many/part{number // 100}/m{number}.txt": b"" for number in range(count)}
    return save(directory, Wheel("many", files={"many/__init__.py": "", **files}))


def huge(directory, size=200 * MIB):
    """A wheel that is as large in the download as on disk."""
    return save(directory, Wheel("huge", files={"huge.py": "", "data.bin": bytes(size)}, compressed=False))


def of_the_system(directory):
    """Wheels that Debian ships; none elsewhere."""
    pathlib.Path(directory).mkdir(parents=True, exist_ok=True)
    return [shutil.copy(path, directory) for path in glob.glob("/usr/share/python-wheels/*.whl")]


def everything(directory):
    """All except the large ones."""
    honest(directory)
    sources(directory)
    hostile(directory)
    of_the_system(directory)
