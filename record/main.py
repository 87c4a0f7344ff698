"""sandpiper record: reads what --record has kept. Its arguments are pairs of a name and a value: what the command line had."""
import contextlib
import os
import re
import signal
import sys
from book import Book, names
from visible import say, write

DAMAGED, USAGE = 1, 2
CELL_MOST = (1 << 31) - 1


class Refused(Exception):
    """Its text and the exit status."""


def write_paged(text):
    """Through a pager to a terminal, if there is one."""
    import subprocess
    try:
        pager = subprocess.Popen(["/bin/sh", "-c", os.environ.get("PAGER") or "less -FRX"], stdin=subprocess.PIPE,
                                 env={**os.environ, "PATH": os.defpath})  # code may have a program of that name in PATH
    except OSError:
        return write(text)
    with contextlib.suppress(OSError):  # it may have been left
        pager.communicate(text.encode())
    pager.wait()


def write_file(path, text, force):
    """Writes the file whole, with mode 0600; replaces one only with force."""
    flags, new = os.O_WRONLY | os.O_CREAT | os.O_EXCL, f"{path}.{os.urandom(3).hex()}"
    fd = os.open(new, flags, 0o600)
    try:
        with open(fd, "wb") as file:
            file.write(text.encode())
        if not force:
            os.close(os.open(path, flags, 0o600))  # now the name is ours
        os.replace(new, path)
    except BaseException:
        os.unlink(new)
        raise


def export(book, options):
    from export import markdown, notebook, page, script
    form = {"ipynb": notebook, "py": script, "md": markdown, "html": page}.get(options.get("format"))
    if not form:
        raise Refused("record export: --format takes ipynb, py, md or html", USAGE)
    text, notes = form(book, options.get("session"))
    path = options.get("output")
    try:
        write_file(path, text, "force" in options) if path is not None else write(text)
    except FileExistsError as error:
        raise Refused(f"record export: {path}: {error.strerror}; --force replaces it", DAMAGED) from None
    except OSError as error:
        if path is None:
            raise
        raise Refused(f"record export: {path}: {error.strerror}", DAMAGED) from None
    if notes:
        say(notes)
    return 0


def why(book, options):
    from show import why as text_of
    given = options.get("cell", "")
    if "cell" in options and not (re.fullmatch("[0-9]{1,10}", given) and 0 < int(given) <= CELL_MOST):
        raise Refused(f"record why: {given} is not the number of a cell", USAGE)
    text = text_of(book, int(given or "0"))
    if text is None:
        raise Refused(f"record why: there is no cell {given}", USAGE)
    write(text)
    return 0


def check(book, _):
    from show import verdict
    text, whole = verdict(book.reading)
    write(text)
    return 0 if whole else DAMAGED


def show(book, _):
    from show import show as text_of
    is_terminal = os.isatty(1)
    (write_paged if is_terminal else write)(text_of(book, colours=is_terminal))
    return 0


def replay(book, options):
    from replay import Replay
    return Replay(book, int(options["server"]), "tools" in options).run()


def list_all(directory):
    from show import summary
    status, text = 0, ""
    for name in names(directory):
        try:
            text += summary(Book(name, directory))
        except OSError as error:
            say(f"record: {error}")
            status = DAMAGED
    write(text)
    return status


def run(options):
    directory = int(options["directory"]) if "directory" in options else None
    if options["action"] == "list":
        return list_all(directory)
    path = options["file"] if directory is None else (names(directory) or [None])[-1]
    if path is None:
        raise Refused("record: there is no record", USAGE)
    try:
        book = Book(path, directory)
    except OSError as error:
        raise Refused(f"record: {error}", USAGE) from None
    reading, action = book.reading, options["action"]
    damaged = reading.why or reading.altered
    if damaged and action != "check":
        say(f"record: {reading.why}; that line is left out" if reading.why
            else "record: it was altered; sandpiper record check says where")
    commands = {"check": check, "show": show, "export": export, "replay": replay, "why": why}
    try:
        status = commands[action](book, options)
    except Refused as refused:
        say(refused.args[0])
        status = refused.args[1]
    return DAMAGED if damaged else status


def main():
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        return run(dict(zip(sys.argv[1::2], sys.argv[2::2])))
    except Refused as refused:
        say(refused.args[0])
        return refused.args[1]
    except OSError:
        say("cannot write all output to stdout")
        return 1


sys.exit(main())
