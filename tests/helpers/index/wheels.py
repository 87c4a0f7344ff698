"""Generated distributions: wheels and sdists, honest ones and ones that no tool would build."""
import base64
import hashlib
import io
import os
import pathlib
import shlex
import stat
import subprocess
import sysconfig
import tarfile
import tempfile
import zipfile

OTHER_PLATFORM = "cp311-cp311-win_amd64"


class Wheel:
    """One wheel, written by `save`. files: path inside -> text or bytes.

    raw: entries that an attacker adds, unchanged and not in RECORD: (name, data, mode).
    mode is st_mode of the entry, which allows symlinks and setuid files.
    """

    def __init__(self, name, version="1.0", files=None, *, requires=(), extras=None, tag="py3-none-any",
                 scripts=None, python=None, raw=(), compressed=True):
        self.name, self.version, self.tag, self.python = name, version, tag, python
        self.module = name.replace("-", "_").replace(".", "_")
        self.files = {f"{self.module}.py": f"VERSION = {version!r}\n"} if files is None else dict(files)
        self.requires, self.extras = tuple(requires), dict(extras or {})
        self.scripts, self.raw, self.compressed = dict(scripts or {}), tuple(raw), compressed

    @property
    def file(self):
        return f"{self.module}-{self.version}-{self.tag}.whl"

    @property
    def info(self):
        return f"{self.module}-{self.version}.dist-info"

    def metadata(self):
        lines = ["Metadata-Version: 2.1", f"Name: {self.name}", f"Version: {self.version}"]
        lines += [f"Requires-Python: {self.python}"] if self.python else []
        lines += [f"Requires-Dist: {need}" for need in self.requires]
        for extra, needs in self.extras.items():
            lines.append(f"Provides-Extra: {extra}")
            lines += [f"Requires-Dist: {need}; extra == '{extra}'" for need in needs]
        return "\n".join(lines) + "\n"

    def described(self):
        """The files of .dist-info except RECORD."""
        pure = "true" if self.tag.endswith("-none-any") else "false"
        interpreter, abi, platforms = self.tag.split("-")
        tags = "".join(f"Tag: {part}-{abi}-{platform}\n"
                       for part in interpreter.split(".") for platform in platforms.split("."))
        found = {"METADATA": self.metadata(),
                 "WHEEL": f"Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: {pure}\n{tags}"}
        if self.scripts:
            entries = "".join(f"{name} = {target}\n" for name, target in self.scripts.items())
            found["entry_points.txt"] = f"[console_scripts]\n{entries}"
        return {f"{self.info}/{name}": text for name, text in found.items()}

    def save(self, directory):
        path = pathlib.Path(directory) / self.file
        how = zipfile.ZIP_DEFLATED if self.compressed else zipfile.ZIP_STORED
        record = []
        with zipfile.ZipFile(path, "w", how) as archive:
            for name, data in {**self.files, **self.described()}.items():
                data = data.encode() if isinstance(data, str) else data
                mode = 0o755 if ".data/scripts/" in name else 0o644
                archive.writestr(entry(name, stat.S_IFREG | mode), data, how)
                digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode().rstrip("=")
                record.append(f"{name},sha256={digest},{len(data)}\n")
            for name, data, mode in self.raw:
                archive.writestr(entry(name, mode), data, how)
            record.append(f"{self.info}/RECORD,,\n")
            archive.writestr(entry(f"{self.info}/RECORD", stat.S_IFREG | 0o644), "".join(record), how)
        return path


def entry(name, mode):
    found = zipfile.ZipInfo("placeholder", (2020, 1, 1, 0, 0, 0))
    # ZipInfo truncates a name at NUL and converts separators; this keeps the name unchanged.
    found.filename = name
    found.external_attr = mode << 16
    return found


class Sdist:
    """A source archive. Without its own backend (backend.py in the tree) it requires setuptools."""

    def __init__(self, name, version="1.0", files=None, *, needs=(), backend=None):
        self.name, self.version = name, version
        self.module = name.replace("-", "_")
        quoted = ", ".join(f'"{need}"' for need in needs)
        how = 'build-backend = "backend"\nbackend-path = ["."]\n' if backend else ""
        self.files = {"pyproject.toml": f"[build-system]\nrequires = [{quoted}]\n{how}",
                      "PKG-INFO": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"}
        if backend:
            self.files["backend.py"] = backend
        self.files.update(files or {})

    @property
    def file(self):
        return f"{self.module}-{self.version}.tar.gz"

    def save(self, directory):
        path = pathlib.Path(directory) / self.file
        with tarfile.open(path, "w:gz") as archive:
            for name, data in self.files.items():
                data = data.encode() if isinstance(data, str) else data
                member = tarfile.TarInfo(f"{self.module}-{self.version}/{name}")
                member.size = len(data)
                archive.addfile(member, io.BytesIO(data))
        return path


def backend(wheel, before=""):
    """Source of a build backend that makes `wheel` without any tool; `before` runs first in the build."""
    with tempfile.TemporaryDirectory() as directory:
        data = base64.b64encode(wheel.save(directory).read_bytes()).decode()
    return (f"import base64, os\n{before}\n"
            "def build_wheel(directory, config_settings=None, metadata_directory=None):\n"
            f"    with open(os.path.join(directory, {wheel.file!r}), 'wb') as out:\n"
            f"        out.write(base64.b64decode({data!r}))\n"
            f"    return {wheel.file!r}\n")


def extension(name, version="1.0"):
    """A wheel with a module compiled here, for this interpreter; None where there is no compiler."""
    source = (f'#include <Python.h>\nstatic PyObject *answer(PyObject *s, PyObject *a)\n'
              '{ (void)s; (void)a; return PyLong_FromLong(42); }\n'
              'static PyMethodDef methods[] = {{"answer", answer, METH_NOARGS, NULL}, {0}};\n'
              f'static struct PyModuleDef module = {{PyModuleDef_HEAD_INIT, "{name}", NULL, -1, methods, 0, 0, 0, 0}};\n'
              f'PyMODINIT_FUNC PyInit_{name}(void) {{ return PyModule_Create(&module); }}\n')
    suffix = sysconfig.get_config_var("EXT_SUFFIX")
    abi = "cp" + sysconfig.get_config_var("py_version_nodot")
    platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
    with tempfile.TemporaryDirectory() as directory:
        code, out = os.path.join(directory, "module.c"), os.path.join(directory, "module.so")
        pathlib.Path(code).write_text(source)
        compiler = shlex.split(os.environ.get("CC", "cc"))
        try:
            made = subprocess.run([*compiler, "-shared", "-fPIC", "-O1", "-o", out, code,
                                   "-I" + sysconfig.get_path("include")], capture_output=True)
        except FileNotFoundError:
            return None
        if made.returncode:
            return None
        return Wheel(name, version, {name + suffix: pathlib.Path(out).read_bytes()}, tag=f"{abi}-{abi}-{platform}")
