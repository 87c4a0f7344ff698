"""Programs and libraries that use calls of the kernel which few others use. Sent as one cell; each function is a case."""
import importlib.util
import os
import shutil
import socket
import subprocess
import sys
import threading


def messages_by_zmq():
    if importlib.util.find_spec("zmq") is None:
        return "zmq is not there"
    code = ("import zmq\ncontext = zmq.Context()\na = context.socket(zmq.PUSH); a.bind('inproc://x')\n"
            "b = context.socket(zmq.PULL); b.connect('inproc://x')\na.send(b'said'); print(b.recv().decode())")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout == "said\n", (done.returncode, done.stderr)


def programs_of_the_system_are_found():
    for name in ("ldconfig", "sysctl"):
        here = [d for d in ("/usr/sbin", "/sbin") if os.access(f"{d}/{name}", os.X_OK)]
        assert not here or shutil.which(name), (name, os.environ["PATH"])
    assert os.environ["PATH"].index("/usr/bin:") < os.environ["PATH"].index("/usr/sbin:")


def java_compiles_and_runs():
    if not shutil.which("javac"):
        return "javac is not there"
    with open("Said.java", "w") as file:
        file.write('public class Said { public static void main(String[] a) throws Exception {\n'
                   'java.security.MessageDigest.getInstance("SHA-256"); System.out.println("said"); } }')
    done = subprocess.run(["java", "-Xint", "-Xmx128m", "Said.java"], capture_output=True, text=True)
    assert done.stdout == "said\n", done.stderr[-2000:]


def what_programs_keep_in_etc():
    with open("/etc/os-release") as file:
        assert "ID=" in file.read()
    for link in ("/usr/share/groff/site-tmac/man.local", "/usr/share/perl/5.36/Net/libnet.cfg", "/usr/share/maven/bin/m2.conf"):
        assert not os.path.islink(link) or os.path.exists(link), link


def interfaces_are_listed():
    try:
        socket.socket(socket.AF_INET).close()
    except OSError:
        return "the level has no network"
    assert [name for _, name in socket.if_nameindex()] == ["lo"]
    if shutil.which("node"):
        done = subprocess.run(["node", "-p", "Object.keys(require('os').networkInterfaces())"], capture_output=True, text=True)
        assert "'lo'" in done.stdout, done.stderr


def databases_start():
    import glob
    programs = glob.glob("/usr/lib/postgresql/*/bin/initdb")
    if not programs:
        return "postgresql is not there"
    try:
        os.close(os.memfd_create("counted"))
    except OSError:
        return "no control group counts memory"
    made = subprocess.run([programs[0], "-D", "data", "--no-sync"], capture_output=True, text=True)
    assert made.returncode == 0, made.stderr
    server = programs[0].replace("initdb", "postgres")
    said = subprocess.run([server, "--single", "-D", "data", "postgres"], input="select 6 * 7\n", capture_output=True, text=True)
    assert '"42"' in said.stdout, (said.stdout, said.stderr)
