"""Pods of every sort that Pod Security has an opinion on, the same for the same seed.

    Generator(random.Random(7)).pod("p-1")

Half of them start from a pod that keeps to ``restricted`` and lose some of that; the others start bare. Each is
valid Kubernetes.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

Json = dict[str, Any]
Change = Callable[[Json], None]

_CAPABILITIES = ("NET_RAW", "SYS_ADMIN", "CHOWN", "NET_BIND_SERVICE", "KILL", "SYS_PTRACE", "MKNOD")
_SYSCTLS = (
    "kernel.shm_rmid_forced",
    "net.ipv4.ip_local_port_range",
    "net.ipv4.ip_local_reserved_ports",
    "net.ipv4.tcp_keepalive_time",
    "net.ipv4.tcp_rmem",
    "kernel.msgmax",
    "net.core.somaxconn",
)
_SELINUX_TYPES = ("container_t", "container_init_t", "container_kvm_t", "container_engine_t", "spc_t")
_VOLUMES: tuple[Json, ...] = (
    {"hostPath": {"path": "/srv"}},
    {"emptyDir": {}},
    {"configMap": {"name": "a"}},
    {"secret": {"secretName": "a"}},
    {"downwardAPI": {"items": [{"path": "name", "fieldRef": {"fieldPath": "metadata.name"}}]}},
    {"projected": {"sources": [{"configMap": {"name": "a"}}]}},
    {"persistentVolumeClaim": {"claimName": "a"}},
    {"csi": {"driver": "inline.example.com"}},
    {"nfs": {"server": "nfs.example.com", "path": "/"}},
    {"iscsi": {"targetPortal": "10.0.0.1", "iqn": "iqn.2001-04.com.example:a", "lun": 0}},
    {"glusterfs": {"endpoints": "a", "path": "b"}},
    {"rbd": {"monitors": ["a"], "image": "b"}},
    {"cephfs": {"monitors": ["a"]}},
    {"fc": {"targetWWNs": ["a"], "lun": 1}},
    {"gitRepo": {"repository": "https://example.com/a.git"}},
    {"gcePersistentDisk": {"pdName": "a"}},
    {"awsElasticBlockStore": {"volumeID": "a"}},
    {"azureDisk": {"diskName": "a", "diskURI": "https://a.blob.core.windows.net/a/a.vhd"}},
    {"azureFile": {"secretName": "a", "shareName": "b"}},
    {"cinder": {"volumeID": "a"}},
    {"flexVolume": {"driver": "example.com/a"}},
    {"flocker": {"datasetName": "a"}},
    {"photonPersistentDisk": {"pdID": "a"}},
    {"portworxVolume": {"volumeID": "a"}},
    {"quobyte": {"registry": "a:1", "volume": "b"}},
    {"scaleIO": {"gateway": "a", "system": "b", "secretRef": {"name": "c"}, "volumeName": "d"}},
    {"storageos": {"volumeName": "a"}},
    {"vsphereVolume": {"volumePath": "a"}},
    {},
)


class Generator:
    """Makes pods."""

    def __init__(self, random: Random) -> None:
        self._random = random

    def pod(self, name: str) -> Json:
        random = self._random
        pod: Json = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "annotations": {}},
            "spec": self._spec(),
        }
        if random.random() < 0.06:
            self._make_windows(pod)
            return pod
        if random.random() < 0.6:
            _restrict(pod)
        for change in random.sample(self._changes(), random.choice((0, 0, 1, 1, 1, 2, 2, 3, 5))):
            change(pod)
        if any(
            "seccompProfile" in one.get("securityContext", {}) for one in (pod["spec"], *_containers(pod))
        ):
            # The field and the annotation before it may not contradict each other.
            pod["metadata"]["annotations"].clear()
        _annotate_apparmor(pod)
        return pod

    def _spec(self) -> Json:
        random = self._random
        names = random.sample(("web", "db", "log", "side", "init", "first"), random.randint(1, 4))
        inits = random.randint(0, len(names) - 1)
        made = [{"name": each, "image": "registry.example.com/a:1"} for each in names]
        spec: Json = {"containers": made[inits:], "automountServiceAccountToken": False}
        if inits:
            spec["initContainers"] = made[:inits]
        return spec

    def _changes(self) -> list[Change]:
        return [
            self._set_privileged,
            self._set_non_root,
            self._set_user,
            self._set_escalation,
            self._set_capabilities,
            self._set_seccomp,
            self._set_apparmor,
            self._set_selinux,
            self._set_sysctls,
            self._set_proc_mount,
            self._set_host_namespaces,
            self._set_ports,
            self._set_volumes,
            self._set_annotations,
            self._set_host_process,
        ]

    def _contexts(self, pod: Json, *, of_pod: bool = True) -> list[Json]:
        """The security contexts of some of the containers, and maybe the pod's."""
        random = self._random
        owners = [one for one in _containers(pod) if random.random() < 0.5]
        if of_pod and random.random() < 0.4:
            owners.append(pod["spec"])
        return [one.setdefault("securityContext", {}) for one in owners]

    def _set_privileged(self, pod: Json) -> None:
        for context in self._contexts(pod, of_pod=False):
            context.pop("allowPrivilegeEscalation", None)
            context["privileged"] = self._random.random() < 0.7

    def _set_non_root(self, pod: Json) -> None:
        for context in self._contexts(pod):
            context["runAsNonRoot"] = self._random.choice((True, False))

    def _set_user(self, pod: Json) -> None:
        for context in self._contexts(pod):
            context["runAsUser"] = self._random.choice((0, 1000, 65534))

    def _set_escalation(self, pod: Json) -> None:
        for context in self._contexts(pod, of_pod=False):
            context.pop("privileged", None)
            value = self._random.choice((True, False, None))
            if value is None:
                context.pop("allowPrivilegeEscalation", None)
            elif value or "SYS_ADMIN" not in context.get("capabilities", {}).get("add", ()):
                context["allowPrivilegeEscalation"] = value

    def _set_capabilities(self, pod: Json) -> None:
        random = self._random
        for context in self._contexts(pod, of_pod=False):
            added = random.sample(_CAPABILITIES, random.randint(0, 2))
            if "SYS_ADMIN" in added:
                # Kubernetes finds that this contradicts a promise not to gain rights.
                context.pop("allowPrivilegeEscalation", None)
            context["capabilities"] = {
                **({"add": added} if added else {}),
                **({"drop": random.choice((["ALL"], ["KILL"], ["all"]))} if random.random() < 0.6 else {}),
            }

    def _set_seccomp(self, pod: Json) -> None:
        for context in self._contexts(pod):
            kind = self._random.choice(("RuntimeDefault", "Unconfined", "Localhost"))
            context["seccompProfile"] = {"type": kind}
            if kind == "Localhost":
                context["seccompProfile"]["localhostProfile"] = "profiles/a.json"

    def _set_apparmor(self, pod: Json) -> None:
        for context in self._contexts(pod):
            kind = self._random.choice(("RuntimeDefault", "Unconfined", "Localhost"))
            context["appArmorProfile"] = {"type": kind}
            if kind == "Localhost":
                context["appArmorProfile"]["localhostProfile"] = "a"

    def _set_selinux(self, pod: Json) -> None:
        random = self._random
        for context in self._contexts(pod):
            options: Json = {}
            if random.random() < 0.7:
                options["type"] = random.choice(_SELINUX_TYPES)
            for field in ("user", "role"):
                if random.random() < 0.3:
                    options[field] = f"{field}_x"
            context["seLinuxOptions"] = options

    def _set_sysctls(self, pod: Json) -> None:
        random = self._random
        if pod["spec"].get("hostNetwork") or pod["spec"].get("hostIPC"):
            return
        chosen = random.sample(_SYSCTLS, random.randint(1, 3))
        pod["spec"].setdefault("securityContext", {})["sysctls"] = [
            {"name": each, "value": "1"} for each in chosen
        ]

    def _set_proc_mount(self, pod: Json) -> None:
        if any(pod["spec"].get(field) for field in ("hostNetwork", "hostPID", "hostIPC")):
            return
        for context in self._contexts(pod, of_pod=False):
            context["procMount"] = self._random.choice(("Default", "Unmasked"))
            # What else Kubernetes wants of a pod that sees all of /proc.
            pod["spec"]["hostUsers"] = False

    def _set_host_namespaces(self, pod: Json) -> None:
        random = self._random
        if "hostUsers" in pod["spec"] or "sysctls" in pod["spec"].get("securityContext", {}):
            return
        for field in ("hostNetwork", "hostPID", "hostIPC"):
            if random.random() < 0.4:
                pod["spec"][field] = random.random() < 0.8

    def _set_ports(self, pod: Json) -> None:
        random = self._random
        free = iter(random.sample(range(80, 999), 10))
        for container in _containers(pod):
            if random.random() < 0.6:
                number = next(free)
                host = random.choice((0, number))
                if pod["spec"].get("hostNetwork"):
                    host = number
                container["ports"] = [{"containerPort": number, **({"hostPort": host} if host else {})}]

    def _set_volumes(self, pod: Json) -> None:
        chosen = self._random.sample(_VOLUMES, self._random.randint(1, 3))
        pod["spec"]["volumes"] = [{"name": f"v{n}", **each} for n, each in enumerate(chosen)]

    def _set_annotations(self, pod: Json) -> None:
        random = self._random
        name = random.choice([each["name"] for each in _containers(pod)])
        annotations = pod["metadata"]["annotations"]
        # Read by old versions of the policy; the server itself has long stopped.
        value = random.choice(("runtime/default", "unconfined", "docker/default", "localhost/a"))
        annotations["seccomp.security.alpha.kubernetes.io/pod"] = value
        annotations[f"container.seccomp.security.alpha.kubernetes.io/{name}"] = value

    def _set_host_process(self, pod: Json) -> None:
        for context in self._contexts(pod):
            context["windowsOptions"] = {"hostProcess": False}

    def _make_windows(self, pod: Json) -> None:
        random = self._random
        spec = pod["spec"]
        spec["os"] = {"name": "windows"}
        if random.random() < 0.5:
            spec["securityContext"] = {"runAsNonRoot": True}
        if random.random() < 0.5:
            spec.setdefault("securityContext", {})["windowsOptions"] = {"hostProcess": True}
            spec["hostNetwork"] = True


def _containers(pod: Json) -> list[Json]:
    return [*pod["spec"].get("initContainers", ()), *pod["spec"]["containers"]]


def _annotate_apparmor(pod: Json) -> None:
    """Kubernetes adds to an AppArmor profile the annotation that came before the field, and evaluates both."""
    of_pod = pod["spec"].get("securityContext", {}).get("appArmorProfile")
    for container in _containers(pod):
        profile = container.get("securityContext", {}).get("appArmorProfile", of_pod)
        if profile is not None:
            value = {
                "RuntimeDefault": "runtime/default",
                "Unconfined": "unconfined",
                "Localhost": "localhost/a",
            }
            key = f"container.apparmor.security.beta.kubernetes.io/{container['name']}"
            pod["metadata"]["annotations"][key] = value[profile["type"]]


def _restrict(pod: Json) -> None:
    pod["spec"]["securityContext"] = {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
    for container in _containers(pod):
        container["securityContext"] = {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
        }
