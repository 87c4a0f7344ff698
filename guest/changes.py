"""What a cell changed: names of its namespace, files of the workspace. Bounded; beyond the bound, reports nothing.

Compares names by id with those at the end of the last cell: holds no reference, so the memory of a value that the cell
drops is free at once. Files count as the cell's when their ctime, which code cannot set, is not older than its start;
the snapshot tells new from changed from gone. Stamps are a few milliseconds coarse, so a small workspace is also
checked before the cell: this leaves out what other processes wrote in the same tick, between the calls.

Of hidden directories reports only that one is new, not what is in them: tools keep much there. Reports symlinks and
hard links as such. The server checks files that programs outside would act on.

With --cow nothing is scanned: the keeper (sandbox/programs/keeper) sees what differs.

In a workspace with more entries than a scan can take, the files are those that Python code itself opened for writing,
renamed or removed, as audit events report.
"""
import os
import stat
import sys
from itertools import compress
from os import scandir
from _operator import ne

try:
    from _ctypes import _SimpleCData
except ImportError:  # a trimmed Python
    _SimpleCData = None

NAMES_MAX = 20000
REPORTED_MAX = 20
LISTED_MAX = 8  # new files of one directory; more are summed up
ENTRIES_MAX = 2000
SKIPPED_SCANS = 32  # after a tree was too big, how many cells pass before the next scan
NOT_LISTED = "the workspace has more than %d entries: only files that Python code changes are listed from here on"
HIDDEN = ("__pycache__", "node_modules")
SMALL = 40  # files
LIGHT = 500  # names
WRITES = os.O_WRONLY | os.O_RDWR
TOUCHED_MAX = 1000
WORD = 8  # bytes of a pointer, on the supported machines
SYMLINK, LINKED, DIRECTORY = "symlink", "hard link", "directory"
NO_DIRECTORY = -1  # the descriptor that marks a relative path as such
state = {"names": [], "ids": [], "version": None, "files": None, "skip": 0, "touched": None, "noted": False}


def begin(session):
    if state["touched"]:
        state["touched"] = {}
    if "cow" in session.options:
        watch_audit()
    elif state["skip"] == 0 and (state["files"] is None or len(state["files"]) <= SMALL):
        look(session.root)


def look(root):
    state["files"] = scan(root)
    if state["files"] is None:
        state["skip"] = SKIPPED_SCANS
        watch_audit()
    else:
        state["noted"] = False


def is_light(session):
    """Whether a report is so cheap that a warm-up can afford one."""
    files = state["files"]
    scans = "cow" not in session.options
    return len(session.namespace) <= LIGHT and (not scans or files is not None and len(files) <= SMALL)


def report(session, result, started):
    """Adds to the result; returns the paths of the files that are new or changed."""
    report_names(session.namespace, result)
    if state["touched"]:
        result += ("claims", claims(session.root))
    if "cow" in session.options:  # the sandbox's keeper names the files; this is for the images among them
        before, after = touched_files(session.root)
        return [session.root + "/" + path for path, facts in after.items() if facts[3] >= started and facts[4] != SYMLINK]
    return report_files(session.root, result, started)


def claims(root):
    """The paths in the workspace that Python code itself has touched: where calls run beside each other, these are
    this one's."""
    cut = len(root) + 1
    return b"\n".join(os.fsencode(path[cut:]) for path in state["touched"] if path.startswith(root + "/"))


def version_field():
    """The type that reads the counter of changes in a dict (PEP 509), or None where Python has none.

    It is a private field of CPython, gone in 3.13; so it is used only where it behaves as it should.
    """
    try:
        if sys.implementation.name != "cpython" or sys.version_info >= (3, 13) or dict.__basicsize__ != 6 * WORD:
            return None
        field, probe = type("field", (_SimpleCData,), {"_type_": "Q"}), {"a": 1}
        seen = [version_of(probe, field), version_of(probe, field)]
        for change in (lambda: probe.update(a=2), lambda: probe.update(b=3), lambda: probe.pop("a")):
            change()
            seen.append(version_of(probe, field))
        return field if seen[0] == seen[1] and len(set(seen)) == 4 else None
    except (TypeError, AttributeError):
        return None


def version_of(namespace, field):
    """Reads the field after the head of the object and the number of items."""
    return field.from_address(id(namespace) + 3 * WORD).value if field is not None else None


def report_names(namespace, result):
    version = version_of(namespace, VERSION_FIELD)
    if version is not None and version == state["version"]:
        return  # ten thousand names take milliseconds: each is a page written to, after a fork
    state["version"] = version
    if len(namespace) > NAMES_MAX:
        state["names"], state["ids"] = [], []
        return
    names, ids = list(namespace), list(map(id, namespace.values()))
    count = 0
    for sign, name in names_changed(names, ids):
        if type(name) is not str or name[:1] == "_":
            continue
        kind = kind_of(namespace.get(name)) if sign != "-" else ""
        if kind == "module":
            continue
        count += 1
        if count <= REPORTED_MAX:
            result += ("var", sign + name[:100], "var_kind", kind)
    state["names"], state["ids"] = names, ids
    if count > REPORTED_MAX:
        result += ("vars_more", str(count - REPORTED_MAX))


def names_changed(names, ids):
    """(sign, name) of each name that is new, bound to another value, or gone."""
    known = len(state["names"])
    if names[:known] == state["names"]:  # names keep their places until one is removed
        rebound = compress(names, map(ne, ids, state["ids"]))
        return [("~", name) for name in rebound] + [("+", name) for name in names[known:]]
    before, after = dict(zip(state["names"], state["ids"])), dict(zip(names, ids))
    there = [("~" if name in before else "+", name) for name in names if before.get(name) != after[name]]
    return there + [("-", name) for name in before if name not in after]


VERSION_FIELD = version_field()


def kind_of(value):
    kind = type(value)
    name = kind.__name__
    if kind in (list, dict, set, tuple, frozenset, str, bytes, bytearray):
        return "%s %d" % (name, len(value))
    if kind.__module__ == "builtins":
        return name
    if hasattr(kind, "shape"):
        try:
            shape = value.shape
            if isinstance(shape, tuple):
                return "%s %s" % (name, "x".join(map(str, shape[:6])))
        except Exception:
            pass
    return name[:60]


def facts_of(s, kind=""):
    """(mtime_ns, size, inode, ctime_ns, kind) of what is no directory; kind: what the result says of it."""
    if kind == "" and s.st_nlink > 1:
        kind = LINKED
    return s.st_mtime_ns, s.st_size, s.st_ino, s.st_ctime_ns, kind


def scan(root):
    """{path: facts} of the visible files and links and of hidden directories, or None above the bound."""
    found, directories, count = {}, [root], 0
    cut = len(root) + 1
    while directories:
        try:
            with scandir(directories.pop()) as entries:
                for entry in entries:
                    count += 1
                    if count > ENTRIES_MAX:
                        return None
                    name = entry.name
                    if entry.is_dir(follow_symlinks=False):
                        if name[0] == ".":
                            s = entry.stat(follow_symlinks=False)
                            found[entry.path[cut:] + "/"] = (0, 0, s.st_ino, s.st_ctime_ns, DIRECTORY)
                        elif name not in HIDDEN:
                            directories.append(entry.path)
                    elif entry.is_file(follow_symlinks=False):
                        found[entry.path[cut:]] = facts_of(entry.stat(follow_symlinks=False))
                    elif entry.is_symlink():
                        found[entry.path[cut:]] = facts_of(entry.stat(follow_symlinks=False), SYMLINK)
        except OSError:
            continue
    return found


def touch(path):
    """Notes, before the code does something to path, whether it existed."""
    touched = state["touched"]
    if type(path) is bytes:
        path = os.fsdecode(path)
    if type(path) is str and len(touched) < TOUCHED_MAX:
        path = os.path.abspath(path)
        if path not in touched:
            touched[path] = os.path.lexists(path)


def on_audit(event, args):
    try:
        if event == "open":
            if type(args[2]) is int and args[2] & WRITES:
                touch(args[0])
        elif event == "os.remove" and args[1] == NO_DIRECTORY:
            touch(args[0])
        elif event == "os.mkdir" and args[2] == NO_DIRECTORY or event == "os.rmdir" and args[1] == NO_DIRECTORY:
            touch(args[0])
        elif event == "os.symlink" and args[2] == NO_DIRECTORY:
            touch(args[1])
        elif event == "os.link" and args[3] == NO_DIRECTORY:
            touch(args[1])
        elif event == "os.rename" and args[2] == args[3] == NO_DIRECTORY:
            touch(args[0])
            touch(args[1])
    except Exception:
        pass


def watch_audit():
    """Starts when the tree is too big for the first time; an audit hook cannot be removed."""
    if state["touched"] is None:
        state["touched"] = {}
        sys.addaudithook(on_audit)


def touched_files(root):
    """(before, after) in the form of scan(), for the files that the code has touched."""
    before, after, cut = {}, {}, len(root) + 1
    for path, existed in state["touched"].items():
        if path.startswith(root + "/"):
            name = path[cut:]
            if existed:
                before[name] = None
            try:
                s = os.lstat(path)
            except OSError:
                continue
            if stat.S_ISREG(s.st_mode) or stat.S_ISLNK(s.st_mode):
                after[name] = facts_of(s, SYMLINK if stat.S_ISLNK(s.st_mode) else "")
            else:
                before.pop(name, None)
    return before, after


def report_files(root, result, started):
    if state["skip"]:
        state["skip"] -= 1
        before, after = touched_files(root)
    else:
        before = state["files"]
        look(root)
        after = state["files"]
        if after is None:
            before, after = touched_files(root)
    if state["files"] is None and not state["noted"]:
        state["noted"] = True
        result += ("files_note", NOT_LISTED % ENTRIES_MAX)
    if before == after:
        return ()
    changed = [("-", path) for path in before.keys() - after.keys()]
    for path, facts in after.items():
        if before.get(path) != facts and facts[3] >= started:
            known = path in before
            if known and facts[4] == DIRECTORY and before[path] and before[path][2] == facts[2]:
                continue  # something in it has changed
            changed.append(("~" if known else "+", path))
    changed.sort(key=lambda entry: entry[1])
    rows = summed_up(changed, after)
    for change, size, kind, _ in rows[:REPORTED_MAX]:
        result += file_fields(change, size, kind)
    if len(rows) > REPORTED_MAX:
        result += ("files_more", str(sum(row[3] for row in rows[REPORTED_MAX:])))
    return [root + "/" + path for sign, path in changed if sign != "-" and after[path][4] in ("", LINKED)]


def summed_up(changed, after):
    """(change, size, kind, number of files) of each row: one for a directory with many new files."""
    rows, new = [], {}
    for sign, path in changed:
        if sign == "+" and after[path][4] == "":
            new.setdefault(os.path.dirname(path), []).append(after[path][1])
    for sign, path in changed:
        facts, directory = after.get(path) or (0, 0, 0, 0, ""), os.path.dirname(path)
        sizes = new.get(directory, ()) if sign == "+" and facts[4] == "" else ()
        if len(sizes) <= LISTED_MAX:
            rows.append((sign + path, facts[1], facts[4], 1))
        elif sizes[0] is not None:
            rows.append(("+%s/" % (directory or "."), sum(sizes), "%d files" % len(sizes), len(sizes)))
            sizes[0] = None  # the directory has its row
    return rows


def file_fields(change, size, kind=""):
    """The fields of a result for one file; kind is one of the words above, "9 files", or empty for a plain file."""
    return "file", os.fsencode(change), "file_size", str(size), "file_kind", kind
