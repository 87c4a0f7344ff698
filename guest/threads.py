"""Threads of native libraries that a copy of the session does not have, and whose they are.

Who waits for one in the copy waits for ever, so the results name them before. The kernel knows where each thread's stack
is, and up it, behind the C library's own, is the address to return to in the library that has started the thread.
"""
import os
from time import sleep as sleep_s

try:
    from _ctypes import CFuncPtr, _SimpleCData, dlopen, dlsym
except ImportError:  # a trimmed Python
    dlopen = None

PLUMBING = ("ld-", "ld.", "libc-", "libc.", "libm.", "libpthread", "libstdc++", "libgcc_s", "libabsl", "libpython", "python")
# Those that start them again, or can do without: the rows of tests/libraries that work after an undo, a crash and in a branch.
RENEWED = (
    "gomp", "omp", "iomp", "openblas", "scipy_openblas", "blas", "lapack", "mkl", "tbb", "pypocketfft", "numpy", "scipy", "numexpr",
    "blosc", "tables", "numba", "sklearn", "xgboost", "lightgbm", "faiss", "torch", "cv2", "opencv", "pyarrow", "arrow",
    "tokenizers", "fftw", "pyfftw", "z3", "rdkit")
RENEWED_IN_PYTHON = ("concurrent.", "multiprocessing.", "joblib.", "trio.", "gevent.", "asyncio.")  # modules: heal.py
SITES = "site-packages", "dist-packages"
NOT_CLOSED = "duckdb"  # works without its threads until a connection waits for their ends, which is a crash
OF_THE_PROCESS = ("polars", "jaxlib", "tensorflow")  # no object has them: only an interpreter that imports it anew does
DEEP = 16384  # bytes of a stack that are read
SHOWN = 4
LOOKS, PAUSE_S = 3, 0.001  # at one that runs, and so has no place
owners = {}  # number of a thread → its library, or None
lost = load("orphan").lost_threads


def found():
    """{library: number of threads, None: those of Python} of what is not renewed. What has some again is not lost."""
    own = threads_of_python(IMPORTED["threading"]) if "threading" in IMPORTED else []
    try:
        numbers = {int(name) for name in os.listdir("/proc/self/task")}.difference([thread.native_id for thread in own], (os.getpid(),))
        for number in owners.keys() - numbers:
            del owners[number]
        look(numbers - owners.keys())
    except OSError:  # no /proc
        owners.clear()
    counts = {}
    for library in (*filter(None, owners.values()), *(None for thread in own if not is_renewed(thread))):
        counts[library] = counts.get(library, 0) + 1
    for library in counts:
        lost.pop(library, None)
    return {library: count for library, count in counts.items() if library is None or not library.startswith(RENEWED)}


def threads_of_python(module):
    """Without the main one, and those of libraries that only call Python."""
    return [thread for thread in module.enumerate() if type(thread) is not module._DummyThread and thread is not module.main_thread()]


def is_renewed(thread):
    """Whether it works for a pool that has others in what comes back."""
    module = getattr(thread._target or type(thread), "__module__", "")
    return type(module) is str and module.startswith(RENEWED_IN_PYTHON)


def look(numbers):
    for _ in range(LOOKS if numbers else 0):
        starts, places = code_of_libraries()
        for number in numbers:
            try:
                with open("/proc/self/task/%d/syscall" % number, "rb", 0) as file:
                    words = file.read(400).split()
                addresses = (int(words[-1], 16), *read_stack(int(words[-2], 16)))
                owners[number] = next(filter(None, (owner(address, starts, places) for address in addresses)), None)
            except (OSError, ValueError, IndexError):
                pass  # it runs, or is gone
        numbers = numbers - owners.keys()
        if not numbers:
            break
        sleep_s(PAUSE_S)


def read_stack(address):
    with open("/proc/self/mem", "rb", 0) as file:
        data = os.pread(file.fileno(), DEEP, address)
    return memoryview(data[:len(data) // 8 * 8]).cast("N")


def owner(address, starts, places):
    low, high = 0, len(starts)
    while low < high:
        middle = (low + high) // 2
        low, high = (middle + 1, high) if starts[middle] <= address else (low, middle)
    return places[low - 1][1] if low and address < places[low - 1][0] else None


def code_of_libraries():
    """Where their code is: the addresses at which it begins, and for each where it ends and the library's name."""
    starts, places = [], []
    with open("/proc/self/maps", "rb") as file:
        for line in file:
            words = line.split(None, 5)
            if len(words) == 6 and words[1][2:3] == b"x" and words[5][:1] == b"/":
                path = os.fsdecode(words[5].rstrip())
                if not path.rpartition("/")[2].startswith(PLUMBING):
                    start, _, end = words[0].partition(b"-")
                    starts.append(int(start, 16))
                    places.append((int(end, 16), name_of(path)))
    return starts, places


def name_of(path):
    """What it belongs to: site-packages/polars/_polars.abi3.so is polars, pyzmq.libs/libzmq-a430b4ce.so.5 and libzmq.so.5 are zmq."""
    parts = path.split("/")
    name = parts[-1]
    for before, part, top in zip(parts, parts[1:], parts[2:]):
        if (part in SITES or before == "packages" and part.isdigit()) and not top.endswith(".libs"):
            name = top
    name = name.partition(".")[0].partition("-")[0].partition("_runtime")[0].lstrip("_")
    return name[3:] if name.startswith("lib") else name


def named(session):
    """The libraries, with the variables that may need them: "zmq 2 (context), polars 4"."""
    parts = []
    for library, count in [(library, count) for library, count in lost.items() if library][:SHOWN]:
        names = [] if library.startswith(OF_THE_PROCESS) else [
            name for name, value in list(session.namespace.items()) if type(name) is str and is_of(type(value), library)][:SHOWN]
        names[-1:] = [name + ": do not close it" if library == NOT_CLOSED else name for name in names[-1:]]
        parts.append("%s %d%s" % (library[:40], count, " (%s)" % ", ".join(names) if names else ""))
    return ", ".join(parts)


def is_of(kind, library):
    module = vars(type)["__module__"].__get__(kind)
    root = module.partition(".")[0].lstrip("_") if type(module) is str else ""
    return len(root) > 2 and root not in ("builtins", "module") and (library.startswith(root) or root.startswith(library))


# --- before a fork ---
# A fork has none but the thread that forked. GCC's OpenMP keeps its threads for the next parallel region, which in the
# fork would wait for them for ever: it is asked to end them, and starts them again when it needs some.
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
        known["functions"] = pausing_functions()
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


def pausing_functions():
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
