"""The images that go back with one result: counted, measured, and made smaller where something here can.

What is drawn or displayed is written to a folder outside of the workspace, so that it is a file that
read_file can read and no file that the cell seems to have made. An image that is too big is made
smaller by Pillow, in a process of its own, so that nothing is imported here for it; where the
interpreter has no Pillow it is only named.
"""
import os
import stat
import sys

LONG_SIDE = 1568  # pixels
COUNT_MAX = 4
WRITTEN_MAX = 20
BYTES_MAX = 600000  # of all images of a call; base64 makes 800 kB of it
SHARE_MIN = 100000
READ_MAX = 50000000
SMALLER_S = 5  # for all that makes an image smaller
EXECUTABLE = sys.executable
SUFFIXES = (".png", ".jpg", ".jpeg", ".gif", ".webp")


class Images:
    def __init__(self, session):
        self.session = session
        self.paths = []
        self.written = []  # (path, size) of what this file put into its folder
        self.left = BYTES_MAX
        self.notes = []

    def share(self, waiting=2):
        """How many bytes the next image may have, so that others find room too."""
        places = max(1, min(waiting, COUNT_MAX - len(self.paths)))
        return max(self.left // places, min(SHARE_MIN, self.left))

    def full(self):
        return len(self.written) >= WRITTEN_MAX

    def write(self, data, suffix):
        """A new file with these bytes. Its name is free: sessions and restarts share the folder."""
        folder = load("streams").TMP + "/figures"
        os.makedirs(folder, 0o755, True)
        name = self.session.name if self.session.name != "default" else ""
        stem = "%s/figure%s-%s" % (folder, name and "-" + safe(name), self.session.cell)
        for number in range(len(self.written) + 1, 1000):
            path = "%s-%d%s" % (stem, number, suffix)
            try:
                fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
            except FileExistsError:
                continue
            with open(fd, "wb") as file:
                file.write(data)
            self.written.append((path, len(data)))
            return path
        raise OSError("no free name for an image in " + folder)

    def take(self, path, size):
        """The image goes back, if there is room."""
        if len(self.paths) < COUNT_MAX and size <= self.left and path not in self.paths:
            self.paths.append(path)
            self.left -= size

    def add(self, data):
        """Bytes of an image that was displayed. The path of the file that holds it, None when it is none."""
        found = measure(data)
        if found is None or self.full():
            return None
        path = self.write(data, found[0])
        self.add_file(path)
        return path

    def add_file(self, path):
        """An image file that the cell has made."""
        if len(self.paths) >= COUNT_MAX or path in self.paths:
            return
        data = read(path)
        found = data and measure(data)
        if not found:
            return
        limit = self.share()
        if found[1] <= LONG_SIDE and len(data) <= limit:
            self.take(path, len(data))
            return
        data = smaller(path, limit)
        if data:
            self.take(self.write(data, measure(data)[0]), len(data))
        else:
            self.notes.append("%s is too large to be shown, and could not be made smaller" % path)


def safe(name):
    return "".join(ch if ch.isalnum() else "_" for ch in name)[:40]


def is_image(path):
    return path.lower().endswith(SUFFIXES)


def read(path):
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    with open(fd, "rb") as file:
        facts = os.fstat(fd)
        if not stat.S_ISREG(facts.st_mode) or facts.st_size > READ_MAX:
            return None
        return file.read(READ_MAX)


def measure(data):
    """(suffix, long side in pixels) of image bytes, or None. Formats: PNG, GIF, JPEG, WebP."""
    size = None
    if data[:8] == b"\x89PNG\r\n\x1a\n" and len(data) > 24:
        size = ".png", max(int.from_bytes(data[16:20], "big"), int.from_bytes(data[20:24], "big"))
    elif data[:6] in (b"GIF87a", b"GIF89a") and len(data) > 10:
        size = ".gif", max(int.from_bytes(data[6:8], "little"), int.from_bytes(data[8:10], "little"))
    elif data[:2] == b"\xff\xd8":
        size = ".jpg", side_of_jpeg(data)
    elif data[:4] == b"RIFF" and data[8:12] == b"WEBP" and len(data) > 30:
        size = ".webp", side_of_webp(data)
    return size if size and size[1] else None


def side_of_jpeg(data):
    at = 2
    while at + 9 < len(data) and data[at] == 0xFF:
        kind = data[at + 1]
        if 0xC0 <= kind <= 0xCF and kind not in (0xC4, 0xC8, 0xCC):  # a start of frame
            return max(int.from_bytes(data[at + 5 : at + 7], "big"), int.from_bytes(data[at + 7 : at + 9], "big"))
        at += 2 + int.from_bytes(data[at + 2 : at + 4], "big")
    return 0


def side_of_webp(data):
    kind = data[12:16]
    if kind == b"VP8X":
        return 1 + max(int.from_bytes(data[24:27], "little"), int.from_bytes(data[27:30], "little"))
    if kind == b"VP8L":
        bits = int.from_bytes(data[21:25], "little")
        return 1 + max(bits & 0x3FFF, bits >> 14 & 0x3FFF)
    if kind == b"VP8 ":
        return max(int.from_bytes(data[i : i + 2], "little") & 0x3FFF for i in (26, 28))
    return 0


def smaller(path, limit):
    """The image of a file within both bounds, or None: made by a process that does not outlast its time."""
    import subprocess

    try:
        done = subprocess.run(
            [EXECUTABLE, "-I", FOLDER + "/thumbnail.py", str(limit)], input=os.fsencode(path),
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=SMALLER_S,
        )
    except (OSError, ValueError, subprocess.SubprocessError):
        return None
    data = done.stdout
    found = measure(data) if done.returncode == 0 and len(data) <= limit else None
    return data if found and found[1] <= LONG_SIDE else None
