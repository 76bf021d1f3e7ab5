"""Which pod fields our nodes honour, approximate or refuse.

    refusals({"containers": [...], "runtimeClassName": "gvisor"})
    # [spec.runtimeClassName: Forbidden: our nodes can't honour this: every container is a process ...]

Nodes run pods as processes: each pod has its own file tree, host name and user ids, each container its own
process ids; the network is the node's, with an address per pod. Server, scheduler and node use this table,
and ``docs/pod-fields.md`` is generated from it. A field that can't be approximated well enough is refused,
with its path, before anything is stored; some only for certain values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from pilothouse.api.kubernetes.table import schema
from pilothouse.meta.fields import FieldError, element, entry
from pilothouse.meta.kind import Kind, Object

HONOURED: Final = "honoured"
APPROXIMATED: Final = "approximated"
REFUSED: Final = "refused"


class FieldSupport(NamedTuple):
    """What becomes of a field."""

    word: str
    reason: str = ""
    only: str = ""
    """Of a refusal: the refused values, in words."""
    applies: Callable[[Any], bool] = bool
    """Of a refusal: whether it applies to this value. A field that is off or empty is never refused."""


_YES: Final = FieldSupport(HONOURED)


def _roughly(reason: str) -> FieldSupport:
    return FieldSupport(APPROXIMATED, reason)


def _no(reason: str, only: str = "", applies: Callable[[Any], bool] = bool) -> FieldSupport:
    return FieldSupport(REFUSED, reason, only, applies)


def _one_of(*values: Any) -> Callable[[Any], bool]:
    return lambda value: value in values


def _given(value: Any) -> bool:
    return value is not None


_PLAIN_PROCESS: Final = "every container is a process of the node"
ONE_RUNTIME: Final = f"{_PLAIN_PROCESS}; there are no other runtimes"
_NO_DEVICES: Final = "nodes hand out no devices"
_NO_STORAGE: Final = "nodes mount no storage of this kind; use a persistentVolumeClaim"
_NO_WINDOWS: Final = "nodes run Linux"
_NO_PRIORITY: Final = "pods have no priorities and never preempt each other"
_FILTER: Final = (
    "unset means RuntimeDefault; Localhost profiles are in the folder seccomp of the node's data. On other "
    "architectures than x86_64 and aarch64 nothing is filtered, and the Node says so"
)
_NO_APPARMOR: Final = "nodes load no profiles: RuntimeDefault means Unconfined"
_NO_SELINUX: Final = "nodes set no SELinux labels: ignored, as kubelet does where the machine has no SELinux"
_SHARED_LIMITS: Final = (
    "cpu, memory: enforced where the node may use control groups; "
    "else the pod's status says that it is not. ephemeral-storage: emptyDir volumes "
    "logs and what it writes elsewhere are looked at three times a minute; a pod that has more is evicted"
)

_SPEC: Final[dict[str, FieldSupport]] = {
    "containers": _YES,
    "initContainers": _YES,
    "ephemeralContainers": _no("containers can't be added to a running pod"),
    "volumes": _YES,
    "restartPolicy": _YES,
    "terminationGracePeriodSeconds": _YES,
    "activeDeadlineSeconds": _YES,
    "dnsPolicy": _roughly("names of pods and services resolve in every pod; other names as on the node"),
    "dnsConfig": _roughly(
        "goes into the pod's own /etc/resolv.conf; options that the C library ignores are ignored"
    ),
    "nodeSelector": _YES,
    "nodeName": _YES,
    "serviceAccountName": _YES,
    "serviceAccount": _YES,
    "automountServiceAccountToken": _YES,
    "hostNetwork": _YES,
    "hostPID": _no("each container has process ids of its own"),
    "hostIPC": _no("each container has inter-process communication of its own"),
    "hostUsers": _roughly(
        "unset means false: under a node agent that is root each pod has 65,536 user ids of its own. Where "
        "the agent is an ordinary user every pod has that one id, whatever is set"
    ),
    "shareProcessNamespace": _no("each container has process ids of its own", "true"),
    "securityContext": _YES,
    "imagePullSecrets": _roughly("nodes do not pull images: they are imported, so no credentials are needed"),
    "hostname": _YES,
    "subdomain": _YES,
    "affinity": _YES,
    "schedulerName": _YES,
    "tolerations": _YES,
    "hostAliases": _YES,
    "priorityClassName": _no(_NO_PRIORITY),
    "priority": _no(_NO_PRIORITY, "other than 0"),
    "preemptionPolicy": _roughly(_NO_PRIORITY),
    "readinessGates": _YES,
    "runtimeClassName": _no(ONE_RUNTIME, applies=_given),
    "enableServiceLinks": _YES,
    "overhead": _no("a container needs nothing beside its own processes"),
    "topologySpreadConstraints": _YES,
    "setHostnameAsFQDN": _no("the host name is the short one", "true"),
    "os": _YES,
    "schedulingGates": _YES,
    "resourceClaims": _no(_NO_DEVICES),
    "resources": _no("limits are per container, not per pod", applies=_given),
}
_CONTAINER: Final[dict[str, FieldSupport]] = {
    "name": _YES,
    "image": _YES,
    "command": _YES,
    "args": _YES,
    "workingDir": _YES,
    "ports": _YES,
    "envFrom": _YES,
    "env": _YES,
    "resources": _YES,
    "resizePolicy": _no("the resources of a running container can't be changed"),
    "restartPolicy": _YES,
    "volumeMounts": _YES,
    "volumeDevices": _no(_NO_DEVICES),
    "livenessProbe": _YES,
    "readinessProbe": _YES,
    "startupProbe": _YES,
    "lifecycle": _YES,
    "terminationMessagePath": _YES,
    "terminationMessagePolicy": _YES,
    "imagePullPolicy": _roughly(
        "images are imported, never fetched: every policy means the image that is there"
    ),
    "securityContext": _YES,
    "stdin": _YES,
    "stdinOnce": _YES,
    "tty": _YES,
}
_POD_SECURITY: Final[dict[str, FieldSupport]] = {
    "seLinuxOptions": _roughly(_NO_SELINUX),
    "windowsOptions": _no(_NO_WINDOWS, applies=_given),
    "runAsUser": _roughly(
        "only a node agent that is root can change the user; "
        "under another one the pod sees this number for the agent's own user"
    ),
    "runAsGroup": _roughly("as runAsUser"),
    "runAsNonRoot": _YES,
    "supplementalGroups": _roughly("set where the node agent is root; else a pod has one group"),
    "supplementalGroupsPolicy": _no(
        "groups of the image's own /etc/group are not looked up", "Strict", _one_of("Strict")
    ),
    "fsGroup": _roughly(
        "set where the node agent is root; else all of a pod is the agent's user, whose its volumes are"
    ),
    "sysctls": _no("kernel settings are the node's"),
    "fsGroupChangePolicy": _YES,
    "seccompProfile": _roughly(_FILTER),
    "appArmorProfile": _roughly(_NO_APPARMOR),
    "seLinuxChangePolicy": _roughly(_NO_SELINUX),
}
_SECURITY: Final[dict[str, FieldSupport]] = {
    "capabilities": _roughly(
        "those that are added count inside the pod's user namespace; for the machine itself only with "
        "hostUsers: true, where the node agent is root"
    ),
    "privileged": _roughly(
        "all capabilities, no system call filter, nothing of /proc masked; "
        "more rights than inside the pod's user namespace only with "
        "hostUsers: true, where the node agent is root. The machine's devices are not in /dev"
    ),
    "seLinuxOptions": _POD_SECURITY["seLinuxOptions"],
    "windowsOptions": _POD_SECURITY["windowsOptions"],
    "runAsUser": _POD_SECURITY["runAsUser"],
    "runAsGroup": _POD_SECURITY["runAsGroup"],
    "runAsNonRoot": _YES,
    "readOnlyRootFilesystem": _YES,
    "allowPrivilegeEscalation": _roughly(
        "unset means false; where the node agent is an ordinary user it is always false"
    ),
    "procMount": _YES,
    "seccompProfile": _roughly(_FILTER),
    "appArmorProfile": _roughly(_NO_APPARMOR),
}
_PROFILE: Final[dict[str, FieldSupport]] = {
    "type": _no("no such profiles are loaded on nodes", "Localhost", _one_of("Localhost")),
    "localhostProfile": _no("no such profiles are loaded on nodes", applies=_given),
}
_FOREIGN_STORAGE: Final = (
    "awsElasticBlockStore", "azureDisk", "azureFile", "cephfs", "cinder", "csi", "fc", "flexVolume",
    "flocker", "gcePersistentDisk", "glusterfs", "iscsi", "nfs", "photonPersistentDisk",
    "portworxVolume", "quobyte", "rbd", "scaleIO", "storageos", "vsphereVolume",
)  # fmt: skip
_VOLUME: Final[dict[str, FieldSupport]] = {
    "name": _YES,
    "emptyDir": _YES,
    "hostPath": _roughly(
        "never what is the node's own: such paths are refused, and covered in folders that hold them"
    ),
    "configMap": _YES,
    "secret": _YES,
    "projected": _YES,
    "downwardAPI": _YES,
    "persistentVolumeClaim": _YES,
    "ephemeral": _no(
        "no controller creates claims for single pods; create the claim yourself, or use a StatefulSet",
        applies=_given,
    ),
    "image": _no("images are not mounted as volumes", applies=_given),
    "gitRepo": _no("nodes do not clone repositories; use an init container", applies=_given),
    **{source: _no(_NO_STORAGE, applies=_given) for source in _FOREIGN_STORAGE},
}

SECTIONS: Final[dict[str, dict[str, FieldSupport]]] = {
    "api.core.v1.PodSpec": _SPEC,
    "api.core.v1.Container": _CONTAINER,
    "api.core.v1.PodSecurityContext": _POD_SECURITY,
    "api.core.v1.SecurityContext": _SECURITY,
    "api.core.v1.AppArmorProfile": _PROFILE,
    "api.core.v1.PodOS": {"name": _no(_NO_WINDOWS, "windows", _one_of("windows"))},
    "api.core.v1.ContainerPort": {
        "name": _YES,
        "containerPort": _YES,
        "protocol": _YES,
        "hostPort": _roughly("the node checks that the port is free, and forwards TCP alone"),
        "hostIP": _roughly("as hostPort"),
    },
    "api.core.v1.ResourceRequirements": {
        "limits": _roughly(_SHARED_LIMITS),
        "requests": _roughly("counted by the scheduler"),
        "claims": _no(_NO_DEVICES),
    },
    "api.core.v1.VolumeMount": {
        "name": _YES,
        "mountPath": _YES,
        "readOnly": _YES,
        "subPath": _YES,
        "subPathExpr": _YES,
        "recursiveReadOnly": _no(
            "mounts below a read-only volume keep their own rights", "Enabled", _one_of("Enabled")
        ),
        "mountPropagation": _no(
            "a pod's mounts are its own",
            "Bidirectional or HostToContainer",
            _one_of("Bidirectional", "HostToContainer"),
        ),
    },
    "api.core.v1.Probe": {
        "exec": _YES,
        "httpGet": _YES,
        "tcpSocket": _YES,
        "grpc": _no("nodes speak no gRPC; use exec with a health checker", applies=_given),
        "initialDelaySeconds": _YES,
        "timeoutSeconds": _YES,
        "periodSeconds": _YES,
        "successThreshold": _YES,
        "failureThreshold": _YES,
        "terminationGracePeriodSeconds": _YES,
    },
    "api.core.v1.Lifecycle": {"postStart": _YES, "preStop": _YES, "stopSignal": _YES},
    "api.core.v1.Volume": _VOLUME,
    "api.core.v1.EmptyDirVolumeSource": {
        "medium": _no(
            "there are no huge pages to hand out",
            "HugePages",
            lambda value: str(value).startswith("HugePages"),
        ),
        "sizeLimit": _roughly("looked at three times a minute: a pod that uses more is evicted"),
    },
    "api.core.v1.VolumeProjection": {
        "secret": _YES,
        "configMap": _YES,
        "downwardAPI": _YES,
        "serviceAccountToken": _YES,
        "clusterTrustBundle": _no("there are no trust bundles; use a config map", applies=_given),
    },
}
"""Verdicts by message and field. Messages that are not here are honoured as a whole."""

_AMOUNTS: Final = {"cpu", "memory", "ephemeral-storage"}
_IGNORED: Final = ("seLinuxOptions", "seLinuxChangePolicy")
"""Fields of security contexts that are accepted and have no effect."""


def refused_fields(kind: Kind, obj: Object) -> list[FieldError]:
    """The refusals of an object with a pod spec: a pod, or an object with a pod template."""
    spec, path = _pod_spec(kind, obj)
    return refusals(spec, path) if spec else []


def ignored_fields(kind: Kind, obj: Object) -> list[str]:
    """A warning for each accepted field without effect on our nodes."""
    spec, path = _pod_spec(kind, obj)
    if not spec:
        return []
    contexts = [(f"{path}.securityContext", spec.get("securityContext"))]
    for field in ("initContainers", "containers"):
        for index, container in enumerate(spec.get(field) or ()):
            at = element(f"{path}.{field}", index)
            contexts.append((f"{at}.securityContext", container.get("securityContext")))
    return [
        f"{at}.{field}: {_NO_SELINUX}"
        for at, context in contexts
        for field in _IGNORED
        if (context or {}).get(field) is not None
    ]


def _pod_spec(kind: Kind, obj: Object) -> tuple[Mapping[str, Any], str]:
    """The pod spec of an object, and its path; empty if there is none."""
    spec = obj.get("spec") or {}
    if (kind.group, kind.name) == ("", "Pod"):
        return spec, "spec"
    if (kind.group, kind.name) == ("apps", "StatefulSet"):
        return (spec.get("template") or {}).get("spec") or {}, "spec.template.spec"
    return {}, "spec"


def refusals(spec: Mapping[str, Any], path: str = "spec") -> list[FieldError]:
    """Every field of a pod spec that our nodes can't honour."""
    return list(_refusals(spec, "api.core.v1.PodSpec", path))


def _refusals(value: Mapping[str, Any], message: str, path: str) -> Iterator[FieldError]:
    section, properties = SECTIONS[message], schema(message).properties
    for field, held in value.items():
        verdict = section.get(field, _YES)
        at = f"{path}.{field}"
        if verdict.word == REFUSED and verdict.applies(held):
            yield FieldError.forbidden(at, f"our nodes can't honour this: {verdict.reason}")
        elif message == "api.core.v1.ResourceRequirements" and field in ("limits", "requests"):
            for name in sorted((held or {}).keys() - _AMOUNTS):
                yield FieldError.forbidden(entry(at, name), f"our nodes can't honour this: {_NO_DEVICES}")
        elif field in properties and held:
            yield from _below(properties[field], held, at)


def _below(node: Any, held: Any, path: str) -> Iterator[FieldError]:
    if node.items is not None and isinstance(held, list):
        inner = node.items.ref.removeprefix("io.k8s.")
        if inner in SECTIONS:
            for index, item in enumerate(held):
                yield from _refusals(item, inner, element(path, index))
    elif isinstance(held, dict):
        inner = node.ref.removeprefix("io.k8s.")
        if inner in SECTIONS:
            yield from _refusals(held, inner, path)
        elif inner == "api.core.v1.ProjectedVolumeSource":
            yield from _below(
                schema(inner).properties["sources"], held.get("sources") or [], f"{path}.sources"
            )


_TITLES: Final = {
    "api.core.v1.PodSpec": ("The pod", "spec"),
    "api.core.v1.Container": ("Its containers", "spec.containers[*] and spec.initContainers[*]"),
    "api.core.v1.PodSecurityContext": ("The pod's security context", "spec.securityContext"),
    "api.core.v1.SecurityContext": ("A container's security context", "spec.containers[*].securityContext"),
    "api.core.v1.AppArmorProfile": ("AppArmor profiles", "….securityContext.appArmorProfile"),
    "api.core.v1.PodOS": ("Operating system", "spec.os"),
    "api.core.v1.ContainerPort": ("Ports", "spec.containers[*].ports[*]"),
    "api.core.v1.ResourceRequirements": ("Resources", "spec.containers[*].resources"),
    "api.core.v1.VolumeMount": ("Mounts", "spec.containers[*].volumeMounts[*]"),
    "api.core.v1.Probe": ("Probes", "spec.containers[*].livenessProbe, readinessProbe, startupProbe"),
    "api.core.v1.Lifecycle": ("Hooks", "spec.containers[*].lifecycle"),
    "api.core.v1.Volume": ("Volumes", "spec.volumes[*]"),
    "api.core.v1.EmptyDirVolumeSource": ("emptyDir", "spec.volumes[*].emptyDir"),
    "api.core.v1.VolumeProjection": ("Projected sources", "spec.volumes[*].projected.sources[*]"),
}


def document() -> str:
    """The table as ``docs/pod-fields.md``."""
    lines = [
        "# Pod fields",
        "",
        "Our nodes run pods as processes. "
        "This table says for every field of a pod whether it is **honoured**,",
        "**approximated** (what is different is said), or **refused**: a pod, or a template of pods, "
        "that uses a refused field",
        "gets a 422 with the field's path when the server runs standalone. "
        "On a real Kubernetes none of this applies.",
        "",
        "Amounts other than `cpu`, `memory` and `ephemeral-storage` in `resources` are refused: "
        "nodes hand out no devices.",
        "",
        "Made from `pilothouse.api.kubernetes.pod_fields`; change it there.",
    ]
    for message, section in SECTIONS.items():
        title, where = _TITLES[message]
        lines += ["", f"## {title}", "", f"`{where}`", "", "| field | | |", "|---|---|---|"]
        for field in sorted(section):
            verdict = section[field]
            word = f"{verdict.word} if {verdict.only}" if verdict.only else verdict.word
            lines.append(f"| `{field}` | {word} | {verdict.reason} |")
    return "\n".join(lines) + "\n"
