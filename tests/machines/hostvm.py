#!/usr/bin/env python3
"""hostvm: run a command on another kind of host.

A host here is a small virtual machine with its own kernel, systemd as pid 1, an ordinary user whose systemd --user
manager runs, and one command: the one given. Its standard input, output, error and exit code are those of this program.
Nothing that the machine writes is kept.

  hostvm.py build [SUITE...] [--kernel KERNEL...]   make images and kernels from Debian packages
  hostvm.py list                                    hosts, and which can run now
  hostvm.py run --host HOST [options] -- COMMAND [ARG...]
  hostvm.py clean                                   remove the cache

pc:SUITE, the default, is Debian's own kernel under QEMU's software emulation: it has Landlock and AppArmor, and is
about ten times slower. um:SUITE is User-Mode Linux: full speed, one processor, no Landlock. Measure times on neither.

Exit code: the command's; 124 when --timeout ran out, 125 when hostvm failed. Cache: $HOSTVM_CACHE,
else ~/.cache/hostvm. Building needs root; running does not, except that um:trixie and um:forky need
root or user namespaces.
"""
import argparse
import json
import os
import shutil
import sys

from images import (CACHE, HOSTS, SUITES, Problem, build_image, build_pc, build_um, kernel_dir,
                    note)
from machines import run


def pair(text):
    src, _, dst = text.partition(":")
    src = os.path.abspath(src)
    if not os.path.exists(src):
        raise Problem("no " + src)
    return src, dst or os.path.join("/home/user", os.path.basename(src))


def main():
    ap = argparse.ArgumentParser(prog="hostvm", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    sub = ap.add_subparsers(dest="verb", required=True)
    b = sub.add_parser("build", help="make images and kernels")
    b.add_argument("suites", nargs="*", metavar="SUITE", help="of " + ", ".join(SUITES) + "; none: bookworm and trixie")
    b.add_argument("--kernel", action="append", default=[], help="um:SUITE or pc:SUITE; none: both for each suite")
    b.add_argument("--again", action="store_true", help="even what is there already")
    sub.add_parser("list", help="show hosts")
    sub.add_parser("clean", help="remove the cache")
    r = sub.add_parser("run", help="run a command on a host")
    r.add_argument("--host", required=True, choices=HOSTS, metavar="HOST")
    r.add_argument("--kernel", help="pc (the default) or um; or um:SUITE, pc:SUITE")
    r.add_argument("--suite", choices=SUITES)
    r.add_argument("--session", choices=("app", "login", "service", "bare", "docker"))
    r.add_argument("--user", choices=("user", "root"))
    r.add_argument("--copy", action="append", default=[], metavar="DIR[:DEST]", help="copy in, owned by the user (default DEST: NAME in the user's home)")
    r.add_argument("--share", action="append", default=[], metavar="DIR[:DEST]", help="show read-only (copied with a pc: kernel)")
    r.add_argument("--cwd", help="directory to start in (default: the user's home)")
    r.add_argument("--env", action="append", default=[], metavar="NAME=VALUE")
    r.add_argument("--client-env", action="store_true", help="only the variables that MCP clients pass on to a stdio server")
    r.add_argument("--sysctl", action="append", default=[], metavar="NAME=VALUE")
    r.add_argument("--append", help="more words for the kernel command line")
    r.add_argument("--memory", type=int, default=1024, metavar="MIB")
    r.add_argument("--cpus", type=int, default=2)
    r.add_argument("--timeout", type=float, default=300, metavar="SECONDS", help="for all of it, starting included")
    r.add_argument("--no-input", action="store_true", help="give the command an empty standard input")
    r.add_argument("--times", action="store_true", help="say how long each part took")
    r.add_argument("--verbose", action="store_true")
    r.add_argument("--keep-console", metavar="FILE")
    argv = sys.argv[1:]
    command = []
    if "--" in argv:
        at = argv.index("--")
        argv, command = argv[:at], argv[at + 1:]
    o = ap.parse_args(argv)
    os.makedirs(CACHE, exist_ok=True)
    if o.verb == "build":
        suites = o.suites or ([] if o.kernel else ["bookworm", "trixie"])
        for s in suites:
            if o.again or not os.path.exists(os.path.join(CACHE, "images", s + ".ext4")):
                build_image(s)
        for name in o.kernel or ["um:" + s for s in suites] + ["pc:" + s for s in suites]:
            if o.again or not os.path.exists(kernel_dir(name) + "/kernel.json"):
                kind, _, s = name.partition(":")
                {"um": build_um, "pc": build_pc}[kind](s)
        shutil.rmtree(os.path.join(CACHE, "apt"), ignore_errors=True)
        return 0
    if o.verb == "list":
        for name, h in HOSTS.items():
            ready = os.path.exists(os.path.join(CACHE, "images", h["suite"] + ".ext4")) and os.path.exists(kernel_dir("pc:" + h["suite"]) + "/kernel.json")
            print(f"{name:18} {'ready' if ready else '-':6} {h['about']}")
        ks = os.path.join(CACHE, "kernels")
        for k in sorted(os.listdir(ks)) if os.path.isdir(ks) else []:
            if os.path.exists(f"{ks}/{k}/kernel.json"):
                print(f"kernel {k.replace('-', ':', 1):12} Linux {json.load(open(f'{ks}/{k}/kernel.json'))['release']}")
        return 0
    if o.verb == "clean":
        shutil.rmtree(CACHE)
        return 0
    h = HOSTS[o.host]
    o.command = command
    if not command:
        raise Problem("no command: hostvm run --host HOST -- COMMAND")
    o.session = o.session or h["session"]
    o.user = o.user or h.get("user", "user")
    o.suite = o.suite or h["suite"]
    o.kernel = {"um": "um:" + o.suite, "pc": "pc:" + o.suite}.get(o.kernel or "pc", o.kernel)
    o.append = " ".join(filter(None, (h.get("append"), o.append)))
    o.apparmor = h.get("apparmor")
    o.sysctl = {**h.get("sysctl", {}), **dict(s.split("=", 1) for s in o.sysctl)}
    o.copies = [pair(p) for p in o.copy]
    o.shares = [pair(p) for p in o.share]
    return run(o)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Problem as e:
        note(str(e))
        sys.exit(125)
    except KeyboardInterrupt:
        sys.exit(130)
