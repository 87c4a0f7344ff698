"""The rules of the Pod Security Standards of Kubernetes 1.35, for the fields that our pods have.

Source: kubernetes.io, "Pod Security Standards"; for user namespaces the admission's relaxation for hostUsers: false.
"""
import re

UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30}
VOLUMES = {"configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "persistentVolumeClaim", "projected", "secret"}
# What each standard must refuse: (standard, place in the pod's spec, value).
BROKEN = [
    ("baseline", ["hostNetwork"], True),
    ("baseline", ["hostPID"], True),
    ("baseline", ["volumes"], [{"name": "host", "hostPath": {"path": "/"}}]),
    ("baseline", ["containers", 0, "securityContext", "privileged"], True),
    ("baseline", ["containers", 0, "securityContext", "procMount"], "Unmasked"),
    ("baseline", ["containers", 0, "securityContext", "capabilities", "add"], ["SYS_ADMIN"]),
    ("baseline", ["containers", 0, "securityContext", "seccompProfile"], {"type": "Unconfined"}),
    ("baseline", ["securityContext", "appArmorProfile"], {"type": "Unconfined"}),
    ("restricted", ["securityContext", "seccompProfile"], None),
    ("restricted", ["securityContext", "runAsNonRoot"], None),
    ("restricted", ["securityContext", "runAsUser"], 0),
    ("restricted", ["containers", 0, "securityContext", "allowPrivilegeEscalation"], None),
    ("restricted", ["containers", 0, "securityContext", "capabilities", "drop"], ["NET_RAW"]),
    ("restricted", ["containers", 0, "securityContext", "procMount"], "Unmasked"),
]


def size(text):
    """Bytes of a quantity in Kubernetes' binary units or in those of our flags."""
    number, unit = re.fullmatch(r"(\d+)(\w*)", text).groups()
    return int(number) * UNITS[unit]


def effective(pod, container, name):
    """A field of the container's security context, or of the pod's where the container's lacks it."""
    return container.get("securityContext", {}).get(name, pod.get("securityContext", {}).get(name))


def baseline(pod):
    for name in ("hostNetwork", "hostPID", "hostIPC"):
        if pod.get(name):
            yield name
    for volume in pod.get("volumes", []):
        if "hostPath" in volume:
            yield "a volume of the host"
    for container in pod["containers"]:
        context = container.get("securityContext", {})
        if context.get("privileged"):
            yield "privileged"
        if context.get("procMount", "Default") != "Default" and pod.get("hostUsers") is not False:
            yield "procMount without a user namespace"
        if context.get("capabilities", {}).get("add"):
            yield "capabilities that engines do not give by default"
        for name in ("seccompProfile", "appArmorProfile"):
            if (effective(pod, container, name) or {}).get("type") == "Unconfined":
                yield f"{name} Unconfined"


def restricted(pod):
    yield from baseline(pod)
    for volume in pod.get("volumes", []):
        if not VOLUMES & volume.keys():
            yield f"volume {volume['name']}"
    for container in pod["containers"]:
        context = container.get("securityContext", {})
        if context.get("allowPrivilegeEscalation") is not False:
            yield "allowPrivilegeEscalation"
        if context.get("capabilities", {}).get("drop") != ["ALL"]:
            yield "capabilities"
        if context.get("procMount", "Default") != "Default":
            yield "procMount"
        if effective(pod, container, "runAsNonRoot") is not True or effective(pod, container, "runAsUser") == 0:
            yield "root"
        if (effective(pod, container, "seccompProfile") or {}).get("type") not in ("RuntimeDefault", "Localhost"):
            yield "seccompProfile"


def violations(pod, standard):
    """Messages for everything in a pod's spec that the standard refuses."""
    return list({"baseline": baseline, "restricted": restricted}[standard](pod))
