"""Every target of the Makefile, and what README.md and docs/INSTALL.md tell a user to type, on a machine that has nothing.

Each case has a root directory of its own with Debian's required packages, apt, make and this source. mmdebstrap makes
it from this machine's source of Debian packages, in this machine's release; `make check` runs in Debian 12 and 13, as a
new contributor's. Commands come from the Makefile and from the document; long ones run in part. Needs root, and about
two hours: each case installs and builds what a new contributor would. The cases share downloaded packages.
"""
import argparse
import ctypes
import functools
import json
import os
import pathlib
import re
import resource
import shlex
import shutil
import subprocess
import sys
import tempfile
import textwrap
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tests" / "machines"))
import images  # noqa: E402

AUTHORITIES = "usr/local/share/authorities.crt"  # the certificates that this machine trusts
CLONE_NEWNS, MS_PRIVATE, MS_REC = 0x20000, 1 << 18, 0x4000
UNSHARE = ("unshare", "--mount", "--pid", "--ipc", "--uts", "--fork", "--kill-child")
# Not chroot(2), which forbids user namespaces.
ENTER = """set -e
mount --bind "$1" "$1"
mkdir -p "$1/var/cache/apt/archives"
mount --bind "$2" "$1/var/cache/apt/archives"
mount -t proc proc "$1/proc"
mount --rbind /sys "$1/sys"
mount --rbind /dev "$1/dev"
cd "$1"
pivot_root . mnt
cd /src
PATH=/usr/bin:/bin umount -l /mnt
shift 2
exec "$@"
"""
# Targets without a case.
LEFT_OUT = {
    "all": "is what `make` makes",
    "help": "prints a text",
    "clean": "removes directories",
    "check-all": "installs what check-quick installs",
    "check-asan": "installs what check-quick installs",
    "check-denied": "installs what check-quick installs",
    "check-fresh": "is this",
}

directory = None
base = None
made = {}  # what several cases start from


def run(*command, **options):
    return subprocess.run(list(map(str, command)), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, errors="replace", **options)


def must(*command, **options):
    done = run(*command, **options)
    if done.returncode:
        raise AssertionError(f"{' '.join(map(str, command))}: status {done.returncode}\n{done.stdout[-6000:]}")
    return done.stdout


def processor_seconds():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def release():
    found = re.search(r"^VERSION_CODENAME=(\w+)", pathlib.Path("/etc/os-release").read_text(), re.M)
    return found and found[1]


def copy_source(target):
    """This tree in one commit, because some targets ask git for the files and for the time of the last commit."""
    for name in must("git", "-C", ROOT, "ls-files", "-z", "--cached", "--others", "--exclude-standard").split("\0"):
        if name and (ROOT / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, target / name)
    git = ("git", "-C", target, "-c", "user.name=fresh", "-c", "user.email=fresh@localhost")
    must(*git, "init", "--quiet")
    must(*git, "add", "--all", "--force")
    must(*git, "commit", "--quiet", "--message=source")


def own_mounts():
    """Keeps the mounts of mmdebstrap from this machine, where other tests would take them for left behind."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWNS) or libc.mount(None, b"/", None, ctypes.c_ulong(MS_PRIVATE | MS_REC), None):
        raise unittest.SkipTest("mounts: " + os.strerror(ctypes.get_errno()))


def setUpModule():
    global directory, base
    if os.geteuid():
        raise unittest.SkipTest("root: mmdebstrap and mounts need it")
    for program in ("mmdebstrap", "git", "pivot_root"):
        if not shutil.which(program):
            raise unittest.SkipTest(f"{program}: not installed")
    if release() not in images.SUITES:
        raise unittest.SkipTest("debian: this machine has no release of Debian that tests/machines knows")
    own_mounts()
    temp = tempfile.TemporaryDirectory(prefix="sp-fresh-")
    unittest.addModuleCleanup(temp.cleanup)
    directory = pathlib.Path(temp.name)
    (directory / "archives" / "partial").mkdir(parents=True)
    base = base_of(release())


@functools.lru_cache(maxsize=None)
def base_of(suite):
    """A root directory with nothing but this release and the source."""
    target = directory / f"base-{suite}"
    sources = directory / f"{suite}.list"
    sources.write_text(images.sources(suite))
    keep = ('Acquire::Languages "none"', 'APT::Keep-Downloaded-Packages "true"', *images.acquire_options())
    must("mmdebstrap", "--quiet", "--variant=minbase", "--mode=root", "--include=make", "--dpkgopt=force-unsafe-io",
         *(f"--aptopt={line}" for line in keep), suite, target, sources)
    for name in ("etc/resolv.conf", "etc/hosts"):
        shutil.copy(pathlib.Path("/", name), target / name)
    if "NODE_EXTRA_CA_CERTS" in os.environ:
        shutil.copy(os.environ["NODE_EXTRA_CA_CERTS"], target / AUTHORITIES)
    copy_source(target / "src")
    return target


def environment():
    """As after a login. Where packages of npm come from is a setting of this machine."""
    words = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", "LANG": "C.UTF-8",
             "SANDPIPER_TEST_SLOW": os.environ.get("SANDPIPER_TEST_SLOW", "4")}
    if (base / AUTHORITIES).exists():
        words["NODE_EXTRA_CA_CERTS"] = f"/{AUTHORITIES}"
    if shutil.which("npm"):
        words["npm_config_registry"] = run("npm", "config", "get", "registry").stdout.split()[-1]
    return words


class Root:
    """A directory that commands see as /; the source is in /src."""

    def __init__(self, name, like=None):
        self.path = directory / name
        must("cp", "-a", "--reflink=auto", like.path if like else base, self.path)

    def sh(self, script, seconds=3600, more=()):
        """(status, output) of a shell script in /src; more: namespaces of its own."""
        done = run(*UNSHARE, *more, "sh", "-c", ENTER, "enter", self.path, directory / "archives", "sh", "-ec", script,
                   env=environment(), timeout=seconds)
        return done.returncode, done.stdout

    def remove(self):
        shutil.rmtree(self.path, ignore_errors=True)


class Fresh(unittest.TestCase):
    def root(self, name, like=None):
        made = Root(name, like)
        self.addCleanup(made.remove)
        return made

    def does(self, root, *scripts):
        """Runs the scripts, each of which must succeed, and returns the last one's output."""
        for script in scripts:
            status, output = root.sh(script)
            self.assertEqual(status, 0, f"{script}\n{output[-6000:]}")
        return output

    def files(self, target):
        """What `make deb` or `make dist` leaves in dist/."""
        if target not in made:
            root = self.root(target)
            self.does(root, f"make {target}")
            made[target] = directory / f"files-{target}"
            shutil.copytree(root.path / "src" / "dist", made[target])
        return made[target]


class Targets(Fresh):
    def after_make(self, name):
        """A root where `make` is done. A target that makes `all` first finds no more than that."""
        if "built" not in made:
            made["built"] = Root("built")
            self.does(made["built"], "make")
        return self.root(name, like=made["built"])

    def test_each_target_has_a_case_or_a_reason(self):
        makefile = (ROOT / "Makefile").read_text()
        targets = re.search(r"^\.PHONY: ((?:.*\\\n)*.*)", makefile, re.M)[1].replace("\\", "").split()
        tried = set(re.findall(r"make ([a-z][\w-]+)", pathlib.Path(__file__).read_text()))
        self.assertEqual([name for name in targets if name not in tried and name not in LEFT_OUT], [])
        self.assertEqual([name for name in LEFT_OUT if name not in targets], [])

    def test_make(self):
        root = self.after_make("make")
        self.assertIn("42", self.does(root, "build/sandpiper run -c 'print(6 * 7)'"))
        self.assertNotIn("installing", self.does(root, "build-aux/deps.sh build"))

    def test_make_without_root_names_what_is_missing(self):
        root = self.root("user")
        status, output = root.sh("chown -R 65534:65534 .; setpriv --reuid=65534 --regid=65534 --clear-groups make")
        self.assertNotEqual(status, 0)
        self.assertRegex(output, r"apt-get install .*\bmeson\b.*\blibjansson-dev\b")

    def test_demo(self):
        self.assertRegex(self.does(self.after_make("demo"), "make demo"), r"\[ok\b")

    def test_install_and_uninstall(self):
        root = self.after_make("install")
        self.does(root, "make install", "cd / && sandpiper run -c 'print(6 * 7)'", "make uninstall")
        self.assertFalse((root.path / "usr/local/bin/sandpiper").exists())

    def test_stress(self):
        self.does(self.after_make("stress"), "make stress CALLS=50")

    def test_soak(self):
        self.does(self.after_make("soak"), "make soak LIVES=20")

    def test_bench(self):
        self.does(self.after_make("bench"), "make bench BENCH_OPTIONS='--only start,warm --scale 0.1'")

    def test_cpython(self):
        self.does(self.after_make("cpython"), "make check-cpython CASES=test_bisect")

    def test_packaging(self):
        self.does(self.after_make("packaging"), "make check-packaging CASES=manifests")

    def test_machines_names_how_to_make_them(self):
        status, output = self.after_make("machines").sh("make check-machines")
        self.assertNotEqual(status, 0)
        self.assertIn("not there: hostvm.py build", output)

    def test_format_changes_nothing(self):
        self.does(self.root("format"), "make format", "git diff --exit-code --stat")

    def test_checks(self):
        """They install the same packages."""
        root = self.root("checks")
        self.does(root, "make check-quick CASES='base_buf state'", "make check-lint CASES='layers words rules'")

    def test_fuzz(self):
        self.does(self.root("fuzz"), "make fuzz FUZZ_SECONDS=1")

    def test_aarch64(self):
        self.does(self.root("aarch64"), "make check-aarch64")

    def test_deb(self):
        """make deb"""
        self.assertEqual(len(list(self.files("deb").glob("sandpiper_*.deb"))), 1)

    def test_dist(self):
        """make dist"""
        names = sorted(path.name for path in self.files("dist").iterdir())
        self.assertTrue({"SHA256SUMS", "server.json"} < set(names), names)

    def test_image(self):
        root = self.root("image")
        self.does(root, "make image")
        self.assertEqual(len(list((root.path / "src/dist").glob("sandpiper*-image-*.tar"))), 2)


class Check(Fresh):
    """`make check` as users have it: a login with umask 002, which the checkout has too, 1,024 descriptors, soft and hard,
    and, once the packages are installed, no network at all, so no registry either."""

    LOGIN = "exec setpriv --reuid=user --regid=user --init-groups prlimit --nofile=1024:1024 env HOME=/home/user USER=user sh -ec "
    LOOPBACK = ("import fcntl, socket, struct; "
                "fcntl.ioctl(socket.socket(), 0x8914, struct.pack('16sh', b'lo', 0x41))")  # SIOCSIFFLAGS: up, running

    def user(self, root, script, more=()):
        """What the script prints as that user in the checkout; it must succeed."""
        first = f"python3 -c {shlex.quote(self.LOOPBACK)}; " if more else ""
        status, said = root.sh(first + self.LOGIN + shlex.quote(f"umask 002; cd; cd sandpiper; {script}"), 6 * 3600, more)
        lines = [line for line in said.splitlines() if re.match(r"(skipped|flaky|failed) |\d+ passed", line)]
        print("".join(f"# {line}\n" for line in lines), end="", flush=True)
        self.assertEqual(status, 0, f"{script}\n{said[-6000:]}")
        return said

    def check(self, suite, packages, *targets):
        root = self.root(f"check-{suite}", like=argparse.Namespace(path=base_of(suite)))
        self.does(root, f"apt-get update -qq; apt-get install -qq -y --no-install-recommends sudo git python3-venv {packages}",
                  "useradd --create-home user; echo 'user ALL=(ALL) NOPASSWD: ALL' > /etc/sudoers.d/user; "
                  "git config --system --add safe.directory '*'",
                  self.LOGIN + "'umask 002; cd; git clone --quiet file:///src sandpiper'")
        self.user(root, "build-aux/deps.sh build check view release")
        for target in targets:
            said = self.user(root, f"make {target}", ("--net",))
            if target == "check":
                self.assertRegex(said, r"(?m)^[1-9]\d* passed, 0 failed$")
                self.assertEqual([path.name for path in (root.path / "tmp").iterdir() if path.name.startswith("sp-")], [])

    def test_debian_13(self):
        """make check, again, make deb"""
        self.check("trixie", "", "check", "check", "deb")

    def test_debian_12_with_a_desktops_packages(self):
        self.check("bookworm", "python3-httpx", "check")


class Document(Fresh):
    """docs/INSTALL.md: the commands as they stand there, by a user who has sudo, beside the downloaded files."""

    def block(self, title, which=0):
        """An indented block below a heading."""
        text = (ROOT / "docs" / "INSTALL.md").read_text()
        section = re.search(rf"^##? {re.escape(title)}$(.*?)(?=^## |\Z)", text, re.M | re.S)[1]
        found = re.findall(r"(?:^ {4}.*\n)+", section, re.M)
        # Nobody can answer apt. doctor exits with 1 if a protection is degraded, as for a user without a session.
        text = textwrap.dedent(found[which])
        return re.sub(r"\bapt (install|remove)", r"apt \1 -y", text).replace("doctor\n", "doctor || test $? = 1\n")

    def machine(self, name, files=None, packages=""):
        root = self.root(name)
        self.does(root, f"apt-get update -qq; apt-get install -qq -y --no-install-recommends sudo python3 {packages}",
                  "useradd --create-home user; echo 'user ALL=(ALL) NOPASSWD: ALL' > /etc/sudoers.d/user")
        if files:
            shutil.copytree(self.files(files), root.path / "src", dirs_exist_ok=True)
        self.does(root, "chown -R user: /src")
        return root

    def types(self, root, *scripts):
        become = "exec setpriv --reuid=user --regid=user --init-groups env HOME=/home/user sh -ec "
        return self.does(root, *(become + shlex.quote(script) for script in scripts))

    def works(self, root, program="sandpiper"):
        self.assertIn("42", self.types(root, f"cd; {program} run -c 'print(6 * 7)'"))

    def gone(self, root):
        self.assertNotEqual(root.sh("command -v sandpiper")[0], 0)

    def test_the_first_five_minutes(self):
        """README.md, from a Debian without anything to the first result, in less than a minute."""
        root = self.root("doc-readme")
        self.does(root, "apt-get update -qq; apt-get install -qq -y --no-install-recommends sudo git",
                  "useradd --create-home user; echo 'user ALL=(ALL) NOPASSWD: ALL' > /etc/sudoers.d/user",
                  "git config --system --add safe.directory '*'")
        section = re.search(r"^## Start$(.*?)^## ", (ROOT / "README.md").read_text(), re.M | re.S)[1]
        first, second = (textwrap.dedent(block) for block in re.findall(r"(?:^ {4}.*\n)+", section, re.M))
        began, used = time.monotonic(), processor_seconds()
        said = self.types(root, "cd; " + re.sub(r"https://\S+", "file:///src sandpiper", first).replace("apt install", "apt install -y"))
        seconds = time.monotonic() - began
        self.assertEqual(said.split()[-1], "42")
        # What it takes where nothing else runs: a busy machine takes longer, for reasons of its own.
        alone = (processor_seconds() - used) / os.cpu_count()
        print(f"# README.md: {seconds:.0f} s to the first result, {alone:.0f} s of each processor", flush=True)
        self.assertLess(alone, 60)
        self.assertIn("SYNOPSIS", self.does(root, "gzip -cdf /usr/local/share/man/man1/sandpiper.1* | sed 's/^.SH //'"))
        said = self.types(root, "mkdir ~/.cursor; " + second)
        self.assertIn("restart", said)
        self.assertTrue((root.path / "home/user/.cursor/mcp.json").exists())

    def test_debian(self):
        root = self.machine("doc-deb", "deb")
        self.types(root, "mkdir ~/.cursor", self.block("Debian and Ubuntu"), self.block("Add it to your assistants"))
        self.assertTrue((root.path / "home/user/Sandpiper").is_dir())
        self.works(root)
        self.types(root, self.block("Debian and Ubuntu", -1))
        self.gone(root)

    def test_static_file(self):
        root = self.machine("doc-static", "dist")
        self.types(root, self.block("Static file"))
        self.works(root)
        self.types(root, self.block("Static file", -1))
        self.gone(root)

    def test_npm(self):
        """The package is the file that `make dist` made: it is in no registry before its release."""
        root = self.machine("doc-npm", "dist", "npm")
        self.types(root, self.block("npm").replace("sandpiper-mcp", "./sandpiper-mcp-*.tgz"))
        self.works(root)
        self.types(root, self.block("npm", -1))
        self.gone(root)

    def test_wheel(self):
        root = self.machine("doc-wheel", "dist", "python3-venv")
        local = "export PIP_NO_INDEX=1 PIP_FIND_LINKS=/src\n"
        self.types(root, local + self.block("uvx, pipx, pip"))
        self.works(root, "~/sandpiper-env/bin/sandpiper")

    def test_source(self):
        root = self.machine("doc-source")
        self.does(root, "apt-get install -qq -y --no-install-recommends git; git config --system --add safe.directory '*'")
        self.types(root, "cd; " + re.sub(r"https://\S+", "file:///src sandpiper", self.block("From source")))
        self.works(root)
        self.types(root, "cd ~/sandpiper; " + self.block("From source", -1))
        self.gone(root)

    def test_entries_of_assistants_are_json(self):
        text = (ROOT / "docs" / "INSTALL.md").read_text()
        entries = re.findall(r"^ {4}(\{.*)$", text, re.M)
        self.assertEqual([sorted(json.loads(entry)) for entry in entries], [["args", "command"]] * 2)


if __name__ == "__main__":
    unittest.main()
