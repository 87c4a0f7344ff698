"""What capturing, diffing and showing add to an empty call, in microseconds, and how it grows.

    python3 build-aux/cost.py [PYTHON]

The guest runs without a sandbox. Each figure is processor time of the interpreter for one call, the mean of many, with
the fork of its checkpoint; take differences from the first line. It is not the time until the result, but does not
depend on what else the machine does.
"""
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "guest"))
import fake_server  # noqa: E402

CALLS = 100

# name, code before, measured code
ROWS = (
    ("empty call", "", ""),
    ("+ value 1", "", "1"),
    ("+ print of one line", "", "print(1)"),
    ("+ one line on stdout, one on stderr", "import sys", "print(1); print(2, file=sys.stderr)"),
    ("+ a variable changes", "n = 0", "n += 1000"),
    ("100 names", "globals().update({'v%d' % i: i for i in range(100)})", ""),
    ("1,000 names", "globals().update({'v%d' % i: i for i in range(1000)})", ""),
    ("10,000 names", "globals().update({'v%d' % i: i for i in range(10000)})", ""),
    ("100,000 names", "globals().update({'v%d' % i: i for i in range(100000)})", ""),
    ("10 files", "for i in range(10): open('f%d' % i, 'w').close()", ""),
    ("100 files", "for i in range(100): open('f%d' % i, 'w').close()", ""),
    ("1,900 files", "for i in range(1900): open('f%d' % i, 'w').close()", ""),
    ("100,000 files", "for i in range(100000): open('f%d' % i, 'w').close()", ""),
    ("list of a million shown", "x = list(range(10**6))", "x"),
    ("nested 1,000 x 1,000 shown", "x = [[0] * 1000 for _ in range(1000)]", "x"),
    ("string of 10 MB shown", "x = 'x' * 10**7", "x"),
)


def processor_ns(pid):
    """Time on a processor, with a resolution that times(2) lacks (proc(5), Linux 2.6.9)."""
    return int(pathlib.Path("/proc/%d/schedstat" % pid).read_text().split()[0])


def measure(python, before, code):
    guest = fake_server.Guest(python)
    try:
        session = guest.session()
        session.run(before)
        session.run("")
        start = processor_ns(session.pid)
        for _ in range(CALLS):
            session.run(code)
        return (processor_ns(session.pid) - start) / CALLS / 1000
    finally:
        guest.close()


def main():
    python = sys.argv[1] if len(sys.argv) > 1 else sys.executable
    base = None
    fake_server.WAIT = 600  # for 100,000 files on a slow disk
    for what, before, code in ROWS:
        cost = measure(python, before, code)
        base = cost if base is None else base
        print("%-40s %8.0f us  %+8.0f" % (what, cost, cost - base), flush=True)


main()
