"""Pictures that tests create, and their sizes."""
import base64
import struct
import zlib


def png(width, height, level=1):
    """An RGB image of one colour."""
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    rows = zlib.compress((b"\0" + b"\x20\x60\xa0" * width) * height, level)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)) \
        + chunk(b"IDAT", rows) + chunk(b"IEND", b"")


def size_of(block):
    data = base64.b64decode(block["data"])
    if data[:4] == b"\x89PNG":
        return struct.unpack(">II", data[16:24])
    at = 2
    while data[at + 1] not in (0xC0, 0xC1, 0xC2):
        at += 2 + int.from_bytes(data[at + 2:at + 4], "big")
    height, width = struct.unpack(">HH", data[at + 5:at + 9])
    return width, height
