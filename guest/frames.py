"""Frames as docs/GUEST.md describes them, and their transport over a socket."""
import os
import sys
from _socket import CMSG_SPACE, MSG_CMSG_CLOEXEC, SCM_RIGHTS, SOL_SOCKET

FDS_MAX = 5
FDS_SPACE = CMSG_SPACE(FDS_MAX * 4)
# The driver's own descriptors: the only table, taken before code can get one of them.
RESERVED = range(64, 76)
(SESSION_FD, SPARE_FD, OUT_FD, ERR_FD, NULL_FD, TRACE_FD, GREETING_FD, KEEPER_FD, CALLS_FD, CELLS_FD, DEAD_FD, OTHER_SPARE_FD) = RESERVED
SPARE_FDS = SPARE_FD, OTHER_SPARE_FD
EXIT_FAILED = 96  # exit statuses: the table is in guest.h
EXIT_CUT_OFF = 97


def pack(fields):
    """One frame: u32 payload size, then the fields."""
    data = join(fields)
    return len(data).to_bytes(4, "little") + data


def join(fields):
    """Each field as u32 size and bytes. Lone surrogates are escaped."""
    parts = []
    for field in fields:
        if type(field) is not bytes:
            field = field.encode() if field.isascii() else field.encode("utf-8", "backslashreplace")
        parts += (len(field).to_bytes(4, "little"), field)
    return b"".join(parts)


def sized(data):
    return len(data).to_bytes(4, "little") + data


def split(payload, at=0):
    """The fields from `at` on, as bytes."""
    fields, end = [], len(payload)
    while at < end:
        start = at + 4
        at = start + int.from_bytes(payload[at:start], "little")
        fields.append(payload[start:at])
    return fields


def unpack(payload, at=0):
    """(verb, {key: bytes}) of the payload from `at` on; the last value of a repeated key counts."""
    words, fields = iter(split(payload, at)), {}
    verb = next(words).decode("utf-8", "replace")
    for key in words:
        fields[key.decode("utf-8", "replace")] = next(words, b"")
    return verb, fields


def descriptors(ancillary):
    return [int.from_bytes(body[i : i + 4], sys.byteorder)
            for level, kind, body in ancillary if level == SOL_SOCKET and kind == SCM_RIGHTS
            for i in range(0, len(body), 4)]


def rights(fds):
    """The ancillary data that sends them."""
    return [(SOL_SOCKET, SCM_RIGHTS, b"".join(fd.to_bytes(4, sys.byteorder) for fd in fds))]


def close(fds):
    for fd in fds:
        os.close(fd)


def receive(control, size, fds):
    """Exactly size bytes, or b"" at end of file; appends descriptors that arrive with them to fds."""
    data = b""
    while len(data) < size:
        chunk, ancillary, _, _ = control.recvmsg(size - len(data), FDS_SPACE, MSG_CMSG_CLOEXEC)
        fds += descriptors(ancillary)
        if not chunk:
            return b""
        data += chunk
    return data


def receive_frame(control):
    """(verb, fields, descriptors); the verb is None at end of file."""
    fds = []
    header = receive(control, 4, fds)
    if not header:
        return None, {}, fds
    verb, fields = unpack(receive(control, int.from_bytes(header, "little"), fds))
    return verb, fields, fds


def send(control, inode, reply):
    try:
        if os.fstat(SESSION_FD).st_ino != inode:
            cut_off()
        sent = control.send(reply)
        while sent < len(reply):  # a signal has come
            reply = memoryview(reply)[sent:]
            sent = control.send(reply)
    except OSError:
        cut_off()


def cut_off():
    """Exits because code has closed the socket: the server learns only the exit status."""
    try:
        os.write(2, b"The interpreter cannot send results: the code has closed descriptor %d.\n" % SESSION_FD)
    finally:
        os._exit(EXIT_CUT_OFF)
