"""Threads of native libraries, before a fork.

A fork has none but the thread that forked. GCC's OpenMP keeps its threads for the next parallel region, which in the
fork would wait for them for ever: it is asked to end them, and starts them again when it needs some.
"""
try:
    from _ctypes import CFuncPtr, dlopen, dlsym
except ImportError:  # a trimmed Python
    dlopen = None

RTLD_LAZY, RTLD_NOLOAD, CDECL = 1, 4, 1
SOFT = 1  # omp_pause_soft: what its variables are set to stays, OpenMP 5.0
known = {"modules": -1, "functions": []}


def pause():
    """By the thread that forks: the library ends the threads that belong to the calling one."""
    if known["modules"] != len(IMPORTED):
        known.update(modules=len(IMPORTED), functions=find())
    for function in known["functions"]:
        function(SOFT)


def find():
    """Of each copy of the library: wheels bring their own."""
    if dlopen is None:
        return []
    kind = type("function", (CFuncPtr,), {"_flags_": CDECL})
    with open("/proc/self/maps", "rb") as file:
        paths = {line[line.index(b"/"):].rstrip() for line in file if b"/libgomp" in line}
    functions = []
    for path in paths:
        try:
            functions.append(kind(dlsym(dlopen(path.decode(), RTLD_LAZY | RTLD_NOLOAD), "omp_pause_resource_all")))
        except (OSError, ValueError):
            pass  # it is older than GCC 9, or gone
    return functions
