"""What `sandpiper run` runs: a program as `python FILE ARG...` does it, or a cell with arguments."""
import atexit
import os

enter = load("session").enter
program = {"stdin": False, "alone": False}  # whether it has standard input, and none of the files beside it


def begin(fields):
    """Prepares what the program finds: its arguments, the current directory, and its own file."""
    SYS["argv"][:] = [os.fsdecode(argument) for argument in fields["argv"].split(b"\0")[:-1]]
    path = os.fsdecode(fields["file"])
    program["stdin"] = fields.get("stdin") is not None
    try:
        if fields["directory"]:
            os.chdir(fields["directory"])
        if path:
            with open(path, "xb") as file:
                file.write(fields["code"])
                program["alone"] = True
    except OSError:
        pass  # the file is in the workspace already, or the directory is gone
    if path:
        SYS["path"][0] = os.path.dirname(path)


def run(session, text, name, fields):
    """Returns when CPython would exit: after the program's threads and its exit functions."""
    if fields["file"]:
        execute(session, os.fsdecode(fields["file"]), fields["code"])
    else:
        finish_after(session.execute, text, name, None)


def execute(session, path, source):
    session.namespace["__file__"] = path
    finish_after(execute_file, session.namespace, path, source)


def execute_file(namespace, path, source):
    """Prints the traceback of an exception as CPython does, by sys.excepthook."""
    try:
        load("language").prepare_compiler(source)
        exec(compile(source, path, "exec", 0, True), namespace)
    except SystemExit:
        raise
    except BaseException as error:
        error.__traceback__ = without_driver(error.__traceback__.tb_next)
        enter(SYS["excepthook"], type(error), error, error.__traceback__)
        if isinstance(error, KeyboardInterrupt):
            raise
        give_hint(error)
        raise SystemExit(1) from None


def hint_for(error):
    """The flag for want of which a program fails, or None."""
    hints = load("hints")
    if isinstance(error, EOFError) and not program["stdin"]:
        return "--stdin passes standard input on"
    if isinstance(error, ModuleNotFoundError):
        name = hints.distribution_for(error.name or "")
        if name in load("distributions").KNOWN:
            return "--preinstall %s installs it" % name
    if isinstance(error, (ModuleNotFoundError, FileNotFoundError)) and program["alone"]:
        return "only the program's own file is in the sandbox; --workspace DIR lets it use a directory"
    if hints.network(error) == hints.no_network():
        return "the sandbox has no network; --allow-host example.org lets code reach that remote host"
    return None


def give_hint(error):
    hint = hint_for(error)
    if hint:
        os.write(2, b"sandpiper: %s\n" % hint.encode())


def without_driver(traceback):
    """Cuts off the handler of an interrupt."""
    at = traceback
    while at is not None and at.tb_next is not None:
        if at.tb_next.tb_frame.f_code.co_filename.startswith(DIRECTORY + "/"):
            at.tb_next = None
        at = at.tb_next
    return traceback


def finish_after(function, *args):
    try:
        function(*args)
    except KeyboardInterrupt:
        raise  # at the time limit, or by a signal: waits for nothing
    except BaseException:
        finish()
        raise
    finish()


def finish():
    threading = IMPORTED.get("threading")
    if threading is not None:
        threading._shutdown()
    atexit._run_exitfuncs()
