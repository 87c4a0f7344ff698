"""64-bit ARM in an emulated machine: doctor's self-tests, state, files, limits, shutdown."""
import json
import pathlib
import re
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(pathlib.Path(__file__).resolve().parent), str(ROOT / "build-aux" / "dist")]

import arm64  # noqa: E402
import programs  # noqa: E402

# All other protections are on: the kernel is Debian's own, and root may create control groups.
LAYERS = ("namespaces", "mounts", "privileges", "seccomp", "landlock", "memory", "pids", "cpu", "disk", "python")
PATIENT = "'--timeout', '600'"
STEPS = f"""
import sys
sys.path.insert(0, '/job/tests/e2e')
from client import Server
with Server({PATIENT}, '--memory', '256M', cleanup_s=20) as server:
    def step(name, good, result):
        print('ok' if good else 'not ok', '-', name, '' if good else result.text, flush=True)
    first = server.python('kept = 6 * 7')
    step('state stays', (r := server.python('print(kept)')).output == '42', r)
    step('an exception is reported', 'ZeroDivisionError' in (r := server.python('1 / 0')).text, r)
    step('a crash is reported', (r := server.python('import os; os.kill(os.getpid(), 9)')).status.kind == 'crashed', r)
    step('state comes back', (r := server.python('print(kept)')).output == '42', r)
    r = server.python('filler = [bytearray(1 << 24) for _ in range(64)]')
    step('memory ends', r.status.kind == 'out of memory', r)
    step('state comes back again', (r := server.python('print(kept)')).output == '42', r)
    server.write('a.txt', 'hello')
    step('files are shared', 'hello' in (r := server.read('a.txt')).text, r)
    r = server.python("import os; print(os.path.exists('/job'), os.listdir('/sys') if os.path.exists('/sys') else '')")
    step('the host is out of sight', r.output.startswith('False'), r)
    r = server.python("import ctypes; print(ctypes.CDLL(None, use_errno=True).unshare(0x10000000))")
    step('no namespace can be made', r.output == '-1', r)
print('ok - nothing is left', flush=True)
"""


class Arm64(unittest.TestCase):
    def test_the_sandbox_works_in_an_emulated_machine(self):
        arm64.need()
        if not programs.can_cross("arm64"):
            self.skipTest("arm64: its cross compiler and libraries are not installed (deps.sh aarch64)")
        program = programs.build("arm64").path
        files = {"build/sandpiper": (program.read_bytes(), 0o755), "steps.py": (STEPS.encode(), 0o644)}
        for directory in ("tests/e2e", "tests/helpers"):
            files |= {str(path.relative_to(ROOT)): (path.read_bytes(), 0o644)
                      for path in (ROOT / directory).iterdir() if path.is_file()}
        said, status = arm64.run(files, "export SANDPIPER=/job/build/sandpiper SANDPIPER_TEST_SLOW=20\n"
                                 "$SANDPIPER doctor --json\n$SANDPIPER run --isolation=container -c 'print(6 * 7)'\n"
                                 "python3 -B /job/steps.py", timeout_s=1500)
        self.assertEqual(status, 0, said)
        doctor, _, steps = said.partition("\n}\n")
        states = {row["protection"]: row["state"] for row in json.loads(doctor + "}")["protections"]}
        self.assertEqual(states, {**states, **dict.fromkeys(LAYERS, "on")})
        self.assertTrue(steps.startswith("42\n"), steps[:400])  # run by root, whose guest has a separate uid
        self.assertEqual(re.findall(r"^not ok.*", steps, re.M), [])
        self.assertEqual(len(re.findall(r"^ok - ", steps, re.M)), STEPS.count("step('") + 1)


if __name__ == "__main__":
    unittest.main()
