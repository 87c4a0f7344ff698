"""Calls of the system that a signal may interrupt in this sandbox, and nowhere else.

Where the keeper learns of each change to files, a call waits until init has received its notification,
seccomp_unotify(2). Until then a signal whose handler does not restart calls ends it with EINTR, and Python's handlers
do not. Python repeats what may be interrupted elsewhere (PEP 475), but not these. So when code installs its first
handler, they are replaced by ones that repeat: a call that ends so has done nothing.
"""
NAMES = ("chmod", "chown", "lchown", "link", "mkdir", "remove", "removexattr", "rename", "replace", "rmdir", "setxattr",
         "symlink", "truncate", "unlink", "utime")
SETS = ("supports_dir_fd", "supports_effective_ids", "supports_fd", "supports_follow_symlinks")


class Repeated:
    """No function: as an attribute of a class it would become a method, which a built-in one does not."""

    __module__ = "os"

    def __init__(self, function):
        self.__function = function
        self.__name__ = self.__qualname__ = function.__name__
        self.__doc__ = function.__doc__

    def __call__(self, *args, **named):
        while True:
            try:
                return self.__function(*args, **named)
            except InterruptedError:  # the handler has run, and may have raised
                pass

    def __repr__(self):
        return repr(self.__function)

    def __reduce__(self):
        return self.__name__


def repeat(os):
    for name in NAMES:
        function = getattr(os, name, None)
        if type(function) is type(len):
            repeated = Repeated(function)
            setattr(os, name, repeated)
            for names in SETS:
                if function in getattr(os, names):
                    getattr(os, names).add(repeated)


def begin(signals, os):
    """signals: the module _signal; through it signal.signal() installs a handler."""
    install = signals.signal

    def signal(number, handler):
        if callable(handler):
            signals.signal = install
            repeat(os)
        return install(number, handler)

    signals.signal = signal
