"""Threads of native libraries, before a fork.

A fork has none but the thread that forked. GCC's OpenMP keeps its threads for the next parallel region, which in the
fork would wait for them for ever: it is asked to end them, and starts them again when it needs some.
"""
try:
    from _ctypes import CFuncPtr, _SimpleCData, dlopen, dlsym
except ImportError:  # a trimmed Python
    dlopen = None

RTLD_LAZY, RTLD_NOLOAD = 1, 4
CDECL, WITH_THE_LOCK = 1, 4  # flags of a ctypes function
SOFT = 1  # omp_pause_soft: what its variables are set to stays, OpenMP 5.0
NAME, ADDS = 8, 32  # where a struct dl_phdr_info has dlpi_name and dlpi_adds, on 64 bits
known = {"loads": 0, "names": None, "iterate": None, "functions": []}  # loads: of libraries, by this process so far


def pause():
    """By the thread that forks: the library ends the threads that belong to the calling one."""
    if dlopen is None:
        return
    known["iterate"] = known["iterate"] or iterator()
    before = known["loads"]
    known["iterate"]()
    if known["loads"] != before:
        known["functions"] = find()
    for function in known["functions"]:
        function(SOFT)


def iterator():
    """What asks the dynamic linker for its counter, and for the names of its libraries if there is a list for them."""
    pointer, size, number, string = (type("simple", (_SimpleCData,), {"_type_": letter}) for letter in "PLiz")

    def visit(info, _size, _data):
        known["loads"] = size.from_address(info + ADDS).value
        if known["names"] is None:
            return 1  # no other one
        known["names"].append(string.from_address(info + NAME).value)
        return 0

    visit = type("function", (CFuncPtr,), {"_flags_": CDECL, "_argtypes_": (pointer, size, pointer), "_restype_": number})(visit)
    # With the interpreter's lock: visit needs it while the linker's is held, and an import takes them in the other order.
    iterate = type("function", (CFuncPtr,), {"_flags_": CDECL | WITH_THE_LOCK})(dlsym(dlopen(None, 0), "dl_iterate_phdr"))
    return lambda: iterate(visit, None)


def find():
    """Of each copy of the library: wheels bring their own."""
    known["names"] = names = []
    known["iterate"]()
    known["names"] = None
    kind = type("function", (CFuncPtr,), {"_flags_": CDECL})
    functions = []
    for name in names:
        if name and b"/libgomp" in name:
            try:
                functions.append(kind(dlsym(dlopen(name.decode(), RTLD_LAZY | RTLD_NOLOAD), "omp_pause_resource_all")))
            except (OSError, ValueError):
                pass  # it is older than GCC 9
    return functions
