"""sandpiper config: puts the entry that starts this server into clients' configuration files, or takes it out.

    config.py WORD=VALUE... -- FLAG...     WORD: action, program, name, call_ms; maybe host, file, workspace, made, lost, settings,
                                                keep, apart

apart is the workspace that the server will have. settings is the server's configuration file, and the variable SANDPIPER_SETTINGS what it gets.

config.c has checked the command line and passes what is to be done, and the server's flags.
"""
import contextlib
import errno
import fcntl
import hashlib
import os
import re
import stat
import subprocess
import sys
import time
import types

from clients import CLIENTS, Failure, edit, make_entry
from visible import say

FILE_BYTES = 40 << 20
LOCK_S = 30
BACKUP = ".before-sandpiper"  # and not ".bak", which a file of the user's may have
ACL = "system.posix_acl_access"


def refuse(code, text):
    raise Failure(f"{text}: {os.strerror(code)}", code)


@contextlib.contextmanager
def explained(text):
    try:
        yield
    except OSError as error:
        refuse(error.errno, text)


# --- files ---

def find_place(path):
    """The path with its symlinks resolved, or after making the directories of a file that is missing."""
    try:
        os.stat(path)
        return os.path.realpath(path)
    except OSError as error:
        if error.errno != errno.ENOENT or os.path.lexists(path):
            refuse(error.errno, path)
    for at in range(1, len(path)):
        if path[at] == "/":
            with explained(f"cannot create {path[:at]}"), contextlib.suppress(FileExistsError):
                os.mkdir(path[:at], 0o755)
    return path


def check_file(path, status):
    """Whether a new file can stand for this one."""
    if not stat.S_ISREG(status.st_mode):
        refuse(errno.EINVAL, f"{path} is not a regular file")
    if not status.st_mode & stat.S_IWUSR:
        refuse(errno.EACCES, f"{path} is read-only; run chmod u+w, or name another file")
    if os.geteuid() not in (0, status.st_uid):
        refuse(errno.EPERM, f"{path} belongs to another user")


def if_any(call, *args):
    """What call returns, or None where a file system or a file has no such attributes."""
    try:
        return call(*args)
    except OSError as error:
        if error.errno not in (errno.ENODATA, errno.EOPNOTSUPP):
            raise
        return None


def copy_attributes(old, new):
    """The user's, and the access control list, of which a new file may have one from its directory."""
    for name in [*(if_any(os.listxattr, old) or ()), ACL]:
        value = if_any(os.getxattr, old, name)
        is_own = name == ACL or name.startswith("user.") and not name.startswith("user.overlay.")
        if is_own and value != if_any(os.getxattr, new, name):
            os.removexattr(new, name) if value is None else os.setxattr(new, name, value)


def write_beside(path, data, old, made):
    """Writes a new file and appends it to made. old: descriptor of the one whose owner, mode and attributes it gets, or None."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)  # such files hold keys
    made.append(path)
    with open(fd, "wb") as file:
        if old is not None:
            status = os.stat(old)
            os.chown(fd, status.st_uid, status.st_gid)
            os.chmod(fd, stat.S_IMODE(status.st_mode))
            copy_attributes(old, fd)
        file.write(data)
        file.flush()
        try:
            os.fsync(fd)
        except OSError as error:
            if error.errno != errno.EINVAL:  # the file system has no such thing, fsync(2)
                raise


def version_of(file):
    """What a change makes another. file: a path or a descriptor. None: there is no such file."""
    with contextlib.suppress(FileNotFoundError):
        status = os.stat(file)
        return status.st_ino, status.st_size, status.st_mtime_ns


def replace(path, data, before, old, version):
    """Keeps the bytes before beside the file, in the place of those of an earlier change, then renames a new file to path.
    Leaves nothing behind on failure. old: descriptor of the file, or None. Returns the path of the bytes before, or None."""
    new, backup, made = f"{path}.new-{os.getpid()}", path + BACKUP if old is not None else None, []
    try:
        with explained(f"cannot write {new}"):
            write_beside(new, data, old, made)
        if backup:
            with contextlib.suppress(OSError):
                os.unlink(backup)  # older than this change
            with explained(f"cannot save the original file as {backup}"):
                write_beside(backup, before, old, made)
        with explained(path):
            if version_of(path) != version:
                refuse(errno.EBUSY, f"{path} was changed by another program")
        with explained(f"cannot rename {new} to {path}"):
            os.rename(new, path)
    except Failure:
        for name in made:
            with contextlib.suppress(OSError):
                os.unlink(name)
        raise
    return backup


def lock(directory):
    """Waits for a while only: code may hold a lock on a directory that it can merely read."""
    end = time.monotonic() + LOCK_S
    while True:
        try:
            return fcntl.flock(directory, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > end:
                raise
            time.sleep(0.05)


def change(path, edit):
    """Replaces the file by what edit() makes of its text. Other processes that do the same wait: a lock on the directory.
    Returns (the file's real path, what was done or None, the path of the old text or None)."""
    path = find_place(path)
    with contextlib.ExitStack() as stack:
        with explained(f"cannot lock the directory of {path}"):
            directory = os.open(os.path.dirname(path) or ".", os.O_RDONLY | os.O_DIRECTORY)
            stack.callback(os.close, directory)
            lock(directory)
        before, old, version = b"", None, None
        with explained(path), contextlib.suppress(FileNotFoundError):
            old = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY)
            stack.callback(os.close, old)
            version = version_of(old)
            check_file(path, os.stat(old))
            before = open(old, "rb", closefd=False).read(FILE_BYTES + 1)
            if len(before) > FILE_BYTES:
                refuse(errno.EFBIG, path)
        try:
            did, text = edit(before.decode("utf-8", "surrogateescape"))
        except Failure as failure:
            raise Failure(f"{path} is unchanged: {failure.text}", failure.code) from None
        return path, did, replace(path, text.encode("utf-8", "surrogateescape"), before, old, version) if did else None


# --- the command ---

def find_file(client, asked):
    own, xdg, home = (os.environ.get(name, "") for name in (client.variable or "", "XDG_CONFIG_HOME", "HOME"))
    if asked.file is not None:
        return asked.file
    if own.startswith("/"):
        directory = own
    elif xdg.startswith("/") and client.directory.startswith(".config/"):  # a relative one counts as unset, XDG spec
        directory = xdg + client.directory[len(".config"):]
    elif home.startswith("/"):
        directory = f"{home}/{client.directory}" if client.directory else home
    else:
        raise Failure("HOME is not set: name the file with --file", errno.ENOENT)
    paths = [f"{directory}/{name}" for name in client.files]
    return next(filter(os.path.exists, paths), paths[0])


def is_found(client, asked):
    """Whether the user has the client: it has left its file, or its directory, here."""
    with contextlib.suppress(Failure):
        path = find_file(client, asked)
        return os.path.exists(path) or bool(client.directory) and os.path.exists(os.path.dirname(path))
    return False


def check_trust(path, asked):
    """Code of a server with these flags must not be able to choose what the client starts: the program has the rule."""
    with explained(asked.program):
        checked = subprocess.run([asked.program, "config", "--check", path, "--", *asked.flags], stdout=subprocess.PIPE)
    if checked.returncode:
        raise Failure(checked.stdout.decode("utf-8", "surrogateescape").rstrip("\n"), errno.EPERM)


def keep_directory(host, asked, make=False):
    """Where the sessions of this client, name and workspace are kept. The server makes the last directory."""
    state, home = os.environ.get("XDG_STATE_HOME", ""), os.environ.get("HOME", "")
    if not state.startswith("/") and not home.startswith("/"):
        raise Failure("HOME is not set: name the directory with -- --keep DIR", errno.ENOENT)
    parent = (state if state.startswith("/") else home + "/.local/state") + "/sandpiper"
    if make:
        with explained(f"cannot create {parent}"):
            os.makedirs(parent, 0o700, exist_ok=True)
    hashed = hashlib.sha256(f"{asked.name}\0{asked.apart or ''}".encode("utf-8", "surrogateescape")).hexdigest()
    return f"{os.path.realpath(parent)}/{host}-{hashed[:12]}"


def say_kept(host):
    """What an entry that is removed leaves: the user may want it again."""
    with contextlib.suppress(Failure, OSError):
        parent, name = os.path.split(keep_directory(host, types.SimpleNamespace(name="", apart="")))
        for entry in sorted(os.listdir(parent)):
            if entry.startswith(name[: -12]):
                print(f"  sessions are still kept: sandpiper keep drop --all {parent}/{entry}")


def change_file(host, path, entry, asked):
    """Changes the client's file, if need be, and prints what it did."""
    check_trust(path, asked)
    path, did, backup = change(path, lambda text: edit(CLIENTS[host], asked.name, entry, text))
    if did:
        asked.changed.append(host)
        print(f'{host}: {did} "{asked.name}" {"in" if entry else "from"} {path}')
    elif entry:
        print(f"{host}: {path} already has this entry")
    else:
        print(f'{host}: {path} has no such entry: "{asked.name}"; --name NAME removes one of another name')
    if backup:
        print(f"  the original file is kept as {backup}")


def print_entry(client, entry, asked):
    try:
        print(edit(client, asked.name, entry, "")[1], end="", flush=True)
    except OSError:  # main() reports it
        return False
    return True


def serve(host, asked):
    """Prints the client's entry, puts it into the client's file, or takes it out. Returns whether it could."""
    client, entry, path = CLIENTS[host], None, CLIENTS[host].files[0]
    try:
        flags = [*asked.flags, "--keep", keep_directory(host, asked, make=True)] if asked.keep else asked.flags
        entry = make_entry(client, asked.program, flags, int(asked.call_ms)) if asked.action != "uninstall" else None
        path = find_file(client, asked)
        if asked.action == "install" or asked.action == "uninstall" and os.path.exists(path):
            change_file(host, path, entry, asked)
        elif asked.action == "uninstall":
            print(f"{host}: there is no {path}")
        if asked.action == "uninstall":
            say_kept(host)
    except Failure as failure:
        if asked.action != "print" or not entry:
            say(f"config: {failure.text}")
        if asked.action == "install" and entry:
            print(f"The entry to {'put in its place' if failure.code == errno.EEXIST else 'add'} by hand:", file=sys.stderr)
            print_entry(client, entry, asked)
        if asked.action != "print" or not entry:
            return False
    if asked.action == "print":
        lost = ", without a workspace (--install adds ~/Sandpiper; or append -- --workspace DIR)" if asked.lost else ""
        print(f"For {path}{lost}:", file=sys.stderr)
        return print_entry(client, entry, asked)
    return True


def make_private(path):
    """Before a password is added: the new file gets the mode of this one. Through no symlink, as find_place() has resolved them."""
    with contextlib.suppress(FileNotFoundError):
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY)
        with contextlib.closing(os.fdopen(fd)):
            os.fchmod(fd, 0o600)


def keep_settings(path):
    """Notes the proxy of this shell for the server: clients pass no such variables on."""
    lines = os.environ.get("SANDPIPER_SETTINGS", "")

    def add(text):
        if re.search(r"(?m)^[ \t]*proxy[ \t]*=", text):
            return None, text
        if "@" in lines:
            make_private(place)
        return "added", text + ("\n" if text and not text.endswith("\n") else "") + lines

    try:
        place = find_place(path)
        if change(place, add)[1]:
            print(f"the proxy of this shell is noted in {place}, as clients pass no such variables on")
    except (Failure, OSError) as failure:
        say(f"config: the proxy of this shell is not noted: {getattr(failure, 'text', failure)}")


def main(words):
    at = words.index("--")
    asked = types.SimpleNamespace(host=None, file=None, workspace=None, made=None, lost=None, settings=None, keep=None, apart=None, changed=[], flags=words[at + 1:])
    asked.__dict__.update(word.split("=", 1) for word in words[:at])
    hosts = [asked.host] if asked.host else [host for host in CLIENTS if is_found(CLIENTS[host], asked)]
    done = [serve(host, asked) for host in hosts].count(True)
    if asked.workspace and done:
        print(f"files are kept in {asked.workspace} (--in-memory keeps none)")
    elif asked.made:
        with contextlib.suppress(OSError):
            os.rmdir(asked.workspace)
    if asked.keep and done:
        print("sessions are kept: their variables are back in the next server (sandpiper keep list DIR, for the --keep of the entry)")
    if asked.settings and done:
        keep_settings(asked.settings)
    if asked.action == "install" and asked.changed:
        print(f'Next: restart {", ".join(asked.changed)}, where it is the server "{asked.name}", then ask: "run print(1) in Python"')
    if not hosts:
        *names, last = CLIENTS
        say(f"config: no client was found; name it with --host: {', '.join(names)} or {last}")
    return 2 if not hosts else 0 if done == len(hosts) else 1


if __name__ == "__main__":
    sys.stderr.reconfigure(errors="surrogateescape")
    try:
        status = main(sys.argv[1:])
        sys.stdout.flush()
    except OSError:
        say("cannot write all output to stdout")
        status = 1
    os._exit(status)  # the interpreter would try again to write
