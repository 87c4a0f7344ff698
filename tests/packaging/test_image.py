"""The container images, started by a client library, confined as engines do by default and with our profile.

SANDPIPER_TEST_IMAGES names a directory that `make image` wrote; without it the test builds them, which takes minutes.
"""
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(HERE.parent / "e2e"), str(HERE.parent / "clients"), str(HERE)]

import containers  # noqa: E402
import packages  # noqa: E402
import test_manifests  # noqa: E402
from client import SLOW, Server  # noqa: E402
from traces import descendants, processes  # noqa: E402

SDK = HERE.parent / "clients"
NAME = "io.modelcontextprotocol.server.name"
# (confinement, level that the user requests instead of the image's): level that doctor names, None: no code may run.
LEVELS = {
    ("docker", None): "container",
    ("docker", "auto"): None,
    ("docker, our profile", None): "full without /proc",
    ("docker, our profile, unmasked", None): "full",
    ("podman", None): "full without /proc",
    ("podman, unmasked", None): "full",
}
PACKAGES = "import numpy, pandas, matplotlib; print(float(pandas.Series(numpy.arange(4)).sum()))"


def setUpModule():
    containers.need_crun()
    work = pathlib.Path(tempfile.mkdtemp(prefix="sp-images-"))
    unittest.addModuleCleanup(shutil.rmtree, work)
    made = pathlib.Path(os.environ.get("SANDPIPER_TEST_IMAGES", work))
    if made == work:
        if not shutil.which("mmdebstrap"):
            raise unittest.SkipTest("mmdebstrap: not installed")
        subprocess.run([sys.executable, "-B", ROOT / "build-aux" / "dist" / "image.py", work], check=True,
                       stdout=subprocess.DEVNULL)
    Images.archives = {path.name.split("-0")[0]: path for path in sorted(made.glob("sandpiper*-image-*.tar"))}
    for name, archive in Images.archives.items():
        (work / name).mkdir()
        Images.unpacked[name] = containers.Image(archive, work / name)


class Images(unittest.TestCase):
    archives, unpacked = {}, {}

    def image(self, name="sandpiper"):
        if name not in self.unpacked:
            self.skipTest(f"{name}: was not made here")
        return self.unpacked[name]

    def container(self, confinement, name="sandpiper", **options):
        return self.enterContext(containers.Container(self.image(name), confinement, **options))

    def await_true(self, condition, what):
        deadline = time.monotonic() + 30 * SLOW
        while not condition():
            self.assertLess(time.monotonic(), deadline, what)
            time.sleep(0.05)


class Archives(Images):
    def test_engines_read_the_archive_in_both_forms(self):
        if not shutil.which("skopeo"):
            self.skipTest("skopeo: not installed")
        for name, archive in self.archives.items():
            with self.subTest(name):
                seen = [json.loads(subprocess.run(["skopeo", "inspect", "--config", f"{form}:{archive}"], check=True,
                                                  capture_output=True, text=True).stdout)
                        for form in ("oci-archive", "docker-archive")]
                self.assertEqual(seen[0]["config"], seen[1]["config"])
                self.assertEqual(seen[0]["rootfs"], seen[1]["rootfs"])

    def test_labels_and_user_of_the_image(self):
        wants = self.image().wants
        self.assertEqual(wants["User"], "1000:1000")
        self.assertEqual(wants["Entrypoint"], ["/usr/bin/sandpiper"])
        self.assertRegex(wants["Labels"][NAME], r"^io\.github\.[\w-]+/[\w-]+$")
        self.assertTrue((self.image().root / "usr/share/doc/python3-numpy/copyright").exists())

    def test_its_user_owns_only_its_home(self):
        root = self.image().root
        self.assertEqual([path for path in root.rglob("*") if path.lstat().st_uid == 1000], [root / "home/sandpiper"])


class Levels(Images):
    def doctor(self, confinement, asked, **options):
        done = self.container(confinement, env=environment(asked), arguments=["doctor", "--json"], **options).run()
        self.assertTrue(done.stdout, done.stderr)
        return json.loads(done.stdout)

    def test_doctor_names_the_level_that_the_container_allows(self):
        for (confinement, asked), level in LEVELS.items():
            with self.subTest(confinement, asked=asked):
                said = self.doctor(confinement, asked)
                self.assertEqual((said["usable"], said["isolation"]), (level is not None, level or said["isolation"]))

    def test_a_client_works_with_the_image(self):
        clients = [f"libraries/{path.name}" for path in (SDK / "libraries").iterdir()]
        place = packages.own(SDK, "smoke.mjs", "picture.py", *clients)
        for (confinement, asked), level in LEVELS.items():
            if not level:
                continue
            with self.subTest(confinement, asked=asked):
                container = self.container(confinement, env=environment(asked))
                done = subprocess.run([packages.node(), place / "smoke.mjs", "sdk_v1", "legacy", *container.command()],
                                      capture_output=True, text=True, timeout=180 * SLOW, cwd=packages.directory())
                steps = [json.loads(line) for line in done.stdout.splitlines()]
                self.assertGreater(len(steps), 8, done.stderr)
                self.assertEqual([one for one in steps if not one["ok"]], [], done.stderr)

    def test_it_runs_with_only_what_it_needs(self):
        """Read-only, without capabilities or new privileges, like a restricted pod."""
        for confinement, asked in (("docker, our profile, unmasked", None), ("docker, our profile", None),
                                  ("docker", None)):
            with self.subTest(confinement, asked=asked):
                container = self.container(confinement, env=environment(asked), hardened=True)
                with Server(wrap=container.command()) as server:
                    result = server.python(PACKAGES)
                    self.assertEqual((result.is_error, result.output), (False, "6.0"), result.text)


class Pod(Images):
    """packaging/kubernetes/sandbox.yaml without a cluster: a container that waits, entered as by `kubectl exec -i`, and a
    volume that outlives it."""

    def live(self, container, code):
        """What the code prints in a server of the pod, which is started and ended."""
        with subprocess.Popen(container.command(), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL) as runtime:
            self.await_true(container.first, "the container does not start")
            try:
                with Server(wrap=container.enter("sandpiper", "--workspace", "/workspace")) as server:
                    result = server.python(code)
                    self.assertFalse(result.is_error, result.text)
                self.await_true(lambda: len(descendants(container.first())) == 1, "more than sleep is left in the pod")
            finally:
                os.kill(container.first(), signal.SIGTERM)
                runtime.wait(20 * SLOW)
            return result.output

    def test_files_of_the_volume_are_there_in_the_next_pod(self):
        spec, = (spec for name, _, spec in test_manifests.pods() if name == "sandbox.yaml Sandbox")
        kept, = spec["containers"]
        places = [mount["mountPath"] for mount in kept["volumeMounts"] if mount["mountPath"] != "/tmp"]
        volume = pathlib.Path(tempfile.mkdtemp(prefix="sp-volume-"))
        self.addCleanup(shutil.rmtree, volume)
        os.chown(volume, 1000, 1000)
        lives = []
        for code in ("open('kept', 'w').write('in the volume'); x = 1", "print(open('kept').read(), 'x' in globals())"):
            home = pathlib.Path(tempfile.mkdtemp(prefix="sp-home-"))
            self.addCleanup(shutil.rmtree, home)
            os.chown(home, 1000, 1000)
            container = self.container("docker", command=kept["command"], hardened=True,
                                       volumes={place: volume if place == "/workspace" else home for place in places})
            lives.append(self.live(container, code))
        self.assertEqual(lives[1], "in the volume False")


class ContainerInit(Images):
    def test_a_signal_stops_it_before_the_first_request(self):
        container = self.container("docker, our profile, unmasked")
        with subprocess.Popen(container.command(), stdin=subprocess.PIPE, stdout=subprocess.DEVNULL) as runtime:
            self.await_true(container.first, "the container does not start")
            os.kill(container.first(), signal.SIGTERM)
            self.assertIn(runtime.wait(20 * SLOW), (0, 128 + signal.SIGTERM))

    def test_a_stopped_container_leaves_nothing(self):
        container = self.container("docker, our profile, unmasked")
        with Server(wrap=container.command()) as server:
            server.python("import subprocess; child = subprocess.Popen(['sleep', '1000'])")
            first = container.first()
            inside = [first, *descendants(first)]
            self.assertGreater(len(inside), 3)
            os.kill(first, signal.SIGTERM)
            server.process.wait(20 * SLOW)
            server.check = False
        self.assertFalse(set(inside) & processes().keys())

    def test_orphans_in_the_container_are_reaped(self):
        """An orphan in its pid namespace, such as a health check or an administrator's `exec` leaves."""
        container = self.container("docker, our profile, unmasked")
        with Server(wrap=container.command()) as server:
            server.python("1")
            first = container.first()
            subprocess.run(["nsenter", "--target", str(first), "--pid", "--mount", "sh", "-c", "sleep 1000 & exit"],
                           check=True)
            orphan, = (pid for pid in descendants(first) if name_of(pid) == "sleep")
            os.kill(orphan, signal.SIGKILL)
            self.await_true(lambda: orphan not in processes(), f"{orphan} stays: {processes().get(orphan)}")


class Http(Images):
    def test_sessions_behind_the_gateway_get_their_own_results(self):
        from test_gateway import free_port  # a port that was free a moment ago
        port = free_port()
        image = self.image("sandpiper-http")
        arguments = [*image.wants["Cmd"][:-1], str(port)]
        container = self.container("docker, our profile, unmasked", "sandpiper-http", arguments=arguments,
                                   host_network=True)
        script = packages.own(SDK, "gateway.mjs") / "gateway.mjs"
        with subprocess.Popen(container.command(), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL) as runtime:
            self.addCleanup(runtime.kill)
            self.await_true(lambda: reachable(port), "the gateway does not start")
            with subprocess.Popen([packages.node(), script, f"http://127.0.0.1:{port}/mcp", "4"], stdin=subprocess.PIPE,
                                  stdout=subprocess.PIPE, text=True) as client:
                self.addCleanup(client.kill)
                self.assertEqual(json.loads(client.stdout.readline()),
                                 [f"{number} ['file-{number}']" for number in range(4)])
                print(file=client.stdin, flush=True)
                self.assertEqual(json.loads(client.stdout.readline()), ["still 2", "still 3"])
                client.communicate("\n")
            first = container.first()
            inside = [first, *descendants(first)]
            os.kill(first, signal.SIGTERM)
            runtime.wait(30 * SLOW)
        self.assertFalse(set(inside) & processes().keys())


def environment(asked):
    return [f"SANDPIPER_ISOLATION={asked}"] if asked else []


def name_of(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:  # the process has exited
        return None


def reachable(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
