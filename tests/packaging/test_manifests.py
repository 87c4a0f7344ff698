"""The manifests in packaging/kubernetes, checked without a cluster.

Kubernetes' own kinds are checked against its types (kubernetes-models on npm), those of agent-sandbox against the schemas of
its custom resource definitions (tests/data/agent-sandbox).
"""
import copy
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(HERE.parent / "clients"), str(HERE)]

import packages  # noqa: E402
import pod_security  # noqa: E402

MANIFESTS = ROOT / "packaging" / "kubernetes"
SCHEMAS = ROOT / "tests" / "data" / "agent-sandbox" / "schemas.json"
IMAGE = "registry.example/sandpiper"  # in the manifests; and VERSION, as its tag: build-aux/dist/manifests.py
OWN_GROUP = "agents.x-k8s.io"
COMPILER = {"strict": True, "noEmit": True, "module": "nodenext", "moduleResolution": "nodenext", "target": "es2022",
            "types": [], "skipLibCheck": True}
# The module of each of Kubernetes' own kinds.
TYPES = {"Deployment": "apps/v1", "Namespace": "v1", "NetworkPolicy": "networking.k8s.io/v1", "Pod": "v1",
         "Service": "v1"}
# Broken copies: the place (the kind, then keys), and the wrong value; None removes the key.
POD_MISTAKES = [
    (["securityContext", "seccompProfile", "localhostProfil"], "profiles/sandpiper.json"),
    (["containers", 0, "securityContext", "procMont"], "Unmasked"),
    (["containers", 0, "securityContext", "allowPrivilegeEscalation"], "no"),
    (["containers", 0, "resources", "limit"], {"memory": "1Gi"}),
    (["containers", 0, "name"], None),
    (["containers"], {"name": "sandpiper"}),
]
CORE_MISTAKES = [("Pod", ["spec", *path], value) for path, value in POD_MISTAKES] + [
    ("Pod", ["spec", "containers", 0, "securityContext", "procMount"], "Unmaskd"),
    ("Deployment", ["spec", "replicas"], "two"),
    ("Deployment", ["spec", "template", "spec", "containers", 0, "image"], ["a", "b"]),
    ("Deployment", ["spec", "selector"], None),
    ("Service", ["spec", "sessionAffinty"], "ClientIP"),
    ("NetworkPolicy", ["spec", "policyTypes"], ["Ingres"]),
    ("Namespace", ["metadata", "label"], {}),
]
TEMPLATE = "SandboxTemplate"
SANDBOX_MISTAKES = [(TEMPLATE, ["spec", "podTemplate", "spec", *path], value) for path, value in POD_MISTAKES] + [
    (TEMPLATE, ["spec", "networkPolicyManagement"], "managed"),
    (TEMPLATE, ["spec", "podTemplate"], None),
    ("Sandbox", ["spec", "operatingMode"], "Stopped"),
    ("Sandbox", ["spec", "volumeClaimTemplates", 0, "spec", "accessModes"], "ReadWriteOnce"),
    ("Sandbox", ["spec", "podTemplate", "spec", "containers", 0, "volumeMounts", 0, "mountpath"], "/x"),
    ("SandboxWarmPool", ["spec", "replicas"], "two"),
    ("SandboxWarmPool", ["spec", "templateRef"], {"name": "sandpiper"}),
    ("SandboxClaim", ["spec", "warmPoolRef"], None),
    ("SandboxClaim", ["spec", "lifecycle", "shutdownPolicy"], "Remove"),
]


def documents():
    """[(file name, document)]"""
    try:
        import yaml
    except ImportError:
        raise unittest.SkipTest("yaml: python3-yaml is not installed") from None
    return [(path.name, each) for path in sorted(MANIFESTS.glob("*.yaml"))
            for each in yaml.safe_load_all(path.read_text())]


def is_sandbox(document):
    return document["apiVersion"].partition("/")[0].endswith(OWN_GROUP)


def broken(document, path, value):
    made = copy.deepcopy(document)
    place = made
    for key in path[:-1]:
        place = place[key]
    if value is None:
        del place[path[-1]]
    else:
        place[path[-1]] = value
    return made


def broken_copies(wanted, mistakes):
    """[(name, copy)] of the first document of each kind."""
    kinds = {document["kind"]: document for _, document in reversed(wanted)}
    return [(f"{kind} {'.'.join(map(str, path))}", broken(kinds[kind], path, value)) for kind, path, value in mistakes]


def pods():
    """[(name, namespace, the pod's spec)]"""
    found = []
    for name, document in documents():
        spec = document.get("spec", {})
        template = spec.get("podTemplate") or spec.get("template") or (document if document["kind"] == "Pod" else None)
        if template:
            found.append((f"{name} {document['kind']}", document["metadata"]["namespace"], template["spec"]))
    return found


class Core(unittest.TestCase):
    def compile(self, named):
        """The names of those (name, document) pairs that the types refuse."""
        target = pathlib.Path(tempfile.mkdtemp(prefix="sp-manifests-"))
        self.addCleanup(shutil.rmtree, target)
        for name in ("package.json", "package-lock.json"):
            shutil.copy(HERE / "kubernetes" / name, target)
        packages.install(target)
        for number, (_, document) in enumerate(named):
            kind = document["kind"]
            (target / f"{number}.ts").write_text(f'import type {{I{kind}}} from "kubernetes-models/{TYPES[kind]}";\n'
                                                 f"export const made: I{kind} = {json.dumps(document)};\n")
        files = [f"{number}.ts" for number in range(len(named))]
        (target / "tsconfig.json").write_text(json.dumps({"compilerOptions": COMPILER, "files": files}))
        done = subprocess.run([*packages.program("typescript/bin/tsc"), "--pretty", "false", "-p", "."], cwd=target,
                              capture_output=True, text=True, timeout=300)
        refused = {int(found) for found in re.findall(r"^(\d+)\.ts\(\d+,\d+\): error", done.stdout, re.MULTILINE)}
        self.assertEqual(done.returncode != 0, bool(refused), done.stdout)
        return {named[number][0] for number in refused}

    def test_kubernetes_accepts_its_kinds_and_no_broken_copy(self):
        good = [(f"{name} {document['kind']} {document['metadata']['name']}", document)
                for name, document in documents() if not is_sandbox(document)]
        bad = broken_copies(good, CORE_MISTAKES)
        self.assertEqual(self.compile(good + bad), {name for name, _ in bad})


class Sandboxes(unittest.TestCase):
    def setUp(self):
        self.documents = [each for each in documents() if is_sandbox(each[1])]
        try:
            import jsonschema
        except ImportError:
            self.skipTest("jsonschema: python3-jsonschema is not installed")
        self.validator = jsonschema.Draft202012Validator
        self.schemas = {kind: self.closed(schema, top=True) for kind, schema in json.loads(SCHEMAS.read_text()).items()}

    def closed(self, schema, top=False):
        """The schema, refusing fields that it does not name, as an API server does with fieldValidation=Strict."""
        made = {key: value for key, value in schema.items() if not key.startswith("x-kubernetes") and key != "format"}
        if schema.get("x-kubernetes-int-or-string"):
            made.pop("type", None)
        if "properties" in made:
            made["properties"] = {key: self.closed(value) for key, value in made["properties"].items()}
            if not schema.get("x-kubernetes-preserve-unknown-fields"):
                made.setdefault("additionalProperties", False)
        for key in ("items", "additionalProperties"):
            if isinstance(made.get(key), dict):
                made[key] = self.closed(made[key])
        if top:  # definitions do not repeat the fields that every object has
            made["properties"]["metadata"] = {"type": "object", "required": ["name", "namespace"]}
        return made

    def refusals(self, document):
        key = f"{document['apiVersion']} {document['kind']}"
        self.assertIn(key, self.schemas)
        return [error.message for error in self.validator(self.schemas[key]).iter_errors(document)]

    def test_the_sandbox_project_accepts_its_kinds(self):
        self.assertEqual({document["kind"] for _, document in self.documents},
                         {TEMPLATE, "Sandbox", "SandboxWarmPool", "SandboxClaim"})
        for name, document in self.documents:
            with self.subTest(name, kind=document["kind"]):
                self.assertEqual(self.refusals(document), [])

    def test_it_refuses_each_broken_copy(self):
        for name, document in broken_copies(self.documents, SANDBOX_MISTAKES):
            with self.subTest(name):
                self.assertTrue(self.refusals(document))


class Rules(unittest.TestCase):
    """Rules that no schema contains."""

    def test_pods_meet_the_standard_that_their_namespace_enforces(self):
        enforced = {document["metadata"]["name"]: document["metadata"]["labels"]["pod-security.kubernetes.io/enforce"]
                    for _, document in documents() if document["kind"] == "Namespace"}
        self.assertEqual(set(enforced.values()), {"baseline", "restricted"})
        for name, namespace, spec in pods():
            with self.subTest(name):
                self.assertEqual(pod_security.violations(spec, enforced[namespace]), [])

    def test_our_check_refuses_what_the_standards_refuse(self):
        spec = next(spec for name, _, spec in pods() if name == "agent-sandbox-restricted.yaml SandboxTemplate")
        for standard, path, value in pod_security.BROKEN:
            with self.subTest(standard, path=path):
                self.assertTrue(pod_security.violations(broken(spec, path, value), standard))

    def test_a_pod_has_the_memory_and_disk_that_its_flags_allow(self):
        for name, _, spec in pods():
            container, = spec["containers"]
            words = " ".join(container.get("args", ["--memory 1G"]))  # the least of a server that chooses it
            memory = pod_security.size(re.search(r"--memory (\w+)", words)[1])
            sessions = 6 if "Deployment" in name else 1
            with self.subTest(name):
                limits = container["resources"]["limits"]
                self.assertGreaterEqual(pod_security.size(limits["memory"]), 1.25 * memory * sessions + (256 << 20))
                on_disk = sum(pod_security.size(volume["emptyDir"]["sizeLimit"]) for volume in spec["volumes"])
                self.assertGreater(pod_security.size(limits["ephemeral-storage"]), on_disk)

    def test_each_pod_has_its_volumes(self):
        for name, _, spec in pods():
            container, = spec["containers"]
            claimed = {"workspace"} if name.endswith(" Sandbox") else set()
            with self.subTest(name):
                self.assertEqual({mount["name"] for mount in container["volumeMounts"]},
                                 {volume["name"] for volume in spec["volumes"]} | claimed)

    def test_images_have_the_name_and_the_version_of_one_place(self):
        for name, _, spec in pods():
            container, = spec["containers"]
            with self.subTest(name):
                self.assertRegex(container["image"], f"^{re.escape(IMAGE)}(-http)?:VERSION$")
        with tempfile.TemporaryDirectory() as out:
            subprocess.run([sys.executable, "-B", ROOT / "build-aux" / "dist" / "manifests.py", out, "--image", "r.example/x"],
                           check=True, stdout=subprocess.DEVNULL)
            made = "".join(path.read_text() for path in pathlib.Path(out).glob("kubernetes/*.yaml"))
            self.assertEqual(len(list(pathlib.Path(out).glob("kubernetes/*.yaml"))), len(list(MANIFESTS.glob("*.yaml"))))
        version = re.search(r"version: '([^']+)'", (ROOT / "meson.build").read_text())[1]
        self.assertEqual(set(re.findall(r"image: (\S+)", made)), {f"r.example/x:{version}", f"r.example/x-http:{version}"})

    def test_only_labelled_clients_get_in_and_nothing_gets_out(self):
        policies = [document["spec"] for _, document in documents() if document["kind"] == "NetworkPolicy"]
        policies += [document["spec"]["networkPolicy"] for _, document in documents() if document["kind"] == TEMPLATE]
        self.assertEqual(len(policies), len(pods()))
        for policy in policies:
            self.assertEqual(policy["egress"], [])
            if policy["ingress"] == [] and policy["podSelector"] == {"matchLabels": {"app": "sandpiper-exec"}}:
                continue  # its client comes by kubectl exec
            rule, = policy["ingress"]
            self.assertEqual(rule["from"], [{"podSelector": {"matchLabels": {"role": "mcp-client"}}}])
            self.assertEqual([port["port"] for port in rule["ports"]], [8000])
