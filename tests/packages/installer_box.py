"""Runs the scripts of guest/installer without a sandbox: a directory replaces the sandbox's `/`."""
import json
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests" / "helpers"), str(ROOT / "tests" / "guest")]
WAIT = 120


def scripts(directory):
    """Copies the files as the sandbox has them: in one directory, with the table of names."""
    for path in [*(ROOT / "guest" / "installer").glob("*.py"), ROOT / "guest" / "distributions.py"]:
        shutil.copy(path, directory)
    return pathlib.Path(directory) / "installer.py"


def python_with(python, directory, pips=()):
    """A separate interpreter, without pip or with the one in a directory of `pips`."""
    subprocess.run([python, "-m", "venv", "--without-pip", directory], check=True)
    site = next(pathlib.Path(directory).glob("lib/python3*/site-packages"))
    (site / "pips.pth").write_text("".join(f"{path}\n" for path in pips))
    return f"{directory}/bin/python"


class Forking:
    """An interpreter with pip, in forks of which a program runs (forking.py)."""

    def __init__(self, python, program):
        self.channel, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self.process = subprocess.Popen([python, "-I", "-B", pathlib.Path(__file__).with_name("forking.py"), program,
                                             str(theirs.fileno())], pass_fds=[theirs.fileno()],
                                            env={"PATH": os.defpath, "HOME": "/nonexistent"})

    def run(self, request, writing, environment):
        """What the program prints."""
        (stdin, theirs), (ours, stdout) = os.pipe(), os.pipe()
        socket.send_fds(self.channel, [json.dumps(environment).encode()], [stdin, stdout, writing])
        for descriptor in (stdin, stdout, writing):
            os.close(descriptor)
        with open(theirs, "wb") as file:
            file.write(request)
        with open(ours, "rb") as file:
            return file.read()

    def close(self):
        self.channel.close()
        self.process.wait(WAIT)


class Box:
    """The directories of installers that share a staging directory, as the server creates them. forking: runs them."""

    def __init__(self, python, program, index=None, forking=None):
        self.forking, self.directory = forking, tempfile.TemporaryDirectory()
        self.root, self.python, self.program, self.index = pathlib.Path(self.directory.name), python, program, index
        self.log, self.progress, self.layers = "", [], 0
        for name in ("stage", "cache", "packages"):
            (self.root / name).mkdir()
        self.stage = self.root / "stage"
        self.places = {"SANDPIPER_" + name.upper().replace("-", "_"): str(self.root / name)
                       for name in ("stage", "cache", "find-links", "constraint", "certificate")}

    def close(self):
        self.directory.cleanup()

    def run(self, step, environment=None, **request):
        layers = [f"{self.root}/packages/{number}" for number in range(self.layers, 0, -1)]
        request = {"step": step, "layers": layers, **request}
        reading, writing = os.pipe()
        environment = {"PATH": os.defpath, "HOME": "/nonexistent", **self.places, **(environment or {})}
        run = self.forking.run if self.forking else self.start
        output = run(json.dumps(request).encode(), writing, environment).decode(errors="replace")
        self.log += output
        with open(reading) as file:
            lines = [json.loads(line) for line in file]
        assert len(lines) > 1 and lines[0] == {"ready": True}, f"no reply; {output}"
        self.progress += [line["progress"] for line in lines[1:-1]]
        return lines[-1]

    def start(self, request, writing, environment):
        process = subprocess.Popen(
            ["sh", "-c", f'exec "$@" 3>&{writing}', "sh", self.python, "-I", "-B", self.program],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, pass_fds=[writing],
            env=environment)
        os.close(writing)
        try:
            return process.communicate(request, timeout=WAIT)[0]
        finally:
            process.kill()
            process.wait()

    def fetch(self, *packages, **request):
        given = {"index_url": self.index.url if self.index else None, "extra_index_urls": [], "only_binary": True}
        return self.run("fetch", packages=packages, **{**given, **request})

    def install(self, *packages, **request):
        """Runs all steps of an installation; returns the last reply."""
        built = []
        for _ in range(4):
            reply = self.fetch(*packages, built=built, **request)
            if not reply["ok"] or not reply["to_build"]:
                break
            made = self.run("build", to_build=reply["to_build"])
            if not made["ok"]:
                return made
            built += reply["to_build"]
        return self.unpack(reply) if reply["ok"] else reply

    def unpack(self, reply, **request):
        done = self.run("install", wheels=[row["file"] for row in reply["to_install"]], **request)
        if done["ok"]:
            self.layers += 1
            (self.stage / "new").rename(self.layer)
        return done

    @property
    def layer(self):
        return self.root / "packages" / str(self.layers)

    def python_sees(self, code):
        return subprocess.run([self.python, "-c", code], env={"PATH": os.defpath, "PYTHONPATH": str(self.layer)},
                              capture_output=True, text=True, check=True).stdout.strip()
