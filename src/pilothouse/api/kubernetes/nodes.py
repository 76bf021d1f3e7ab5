"""Nodes and namespaces."""

from __future__ import annotations

from typing import Any, Final

from pilothouse.api.kubernetes.printer_cells import AGE, NAME, NONE, UNKNOWN, at, column
from pilothouse.api.kubernetes.shared_checks import Problems, follows
from pilothouse.meta.fields import FieldError, element
from pilothouse.meta.kind import Object
from pilothouse.meta.names import label_value, qualified_name

NAMESPACE_LABEL: Final = "kubernetes.io/metadata.name"
_ROLE: Final = "node-role.kubernetes.io/"
_OLD_ROLE: Final = "kubernetes.io/role"


def default_namespace(namespace: Object) -> None:
    """Each namespace has its name as a label, for selectors. A generated name comes later."""
    name = namespace["metadata"].get("name")
    if name:
        namespace["metadata"]["labels"] = {
            **(namespace["metadata"].get("labels") or {}),
            NAMESPACE_LABEL: name,
        }


def prepare_namespace(namespace: Object) -> None:
    """A new namespace is active, and has the finalizer that is removed once it is empty."""
    default_namespace(namespace)
    finalizers = (namespace.get("spec") or {}).get("finalizers") or []
    namespace["spec"] = {
        "finalizers": [*finalizers, *(["kubernetes"] if "kubernetes" not in finalizers else [])]
    }
    namespace["status"] = {"phase": "Active"}


def end_namespace(namespace: Object) -> None:
    """No more objects can be created in it."""
    namespace["status"] = {**(namespace.get("status") or {}), "phase": "Terminating"}


def namespace_is_held(namespace: Object) -> bool:
    """A namespace stays until its ``spec.finalizers`` are removed."""
    return bool((namespace.get("spec") or {}).get("finalizers"))


def keep_namespace(new: Object, old: Object) -> None:
    """Finalizers change only through ``/finalize``."""
    new["spec"] = dict(old.get("spec") or {})


def validate_namespace(new: Object, old: Object | None) -> Problems:
    for index, finalizer in enumerate((new.get("spec") or {}).get("finalizers") or ()):
        yield from follows(element("spec.finalizers", index), finalizer, qualified_name)


def default_node(node: Object) -> None:
    """Allocatable defaults to capacity."""
    status = node.get("status") or {}
    if status.get("capacity") and status.get("allocatable") is None:
        status["allocatable"] = dict(status["capacity"])


def validate_node(new: Object, old: Object | None) -> Problems:
    spec = new.get("spec") or {}
    seen: set[tuple[str, str]] = set()
    for index, taint in enumerate(spec.get("taints") or ()):
        at_taint = element("metadata.taints", index)
        yield from follows(f"{at_taint}.key", taint.get("key", ""), qualified_name)
        yield from follows(f"{at_taint}.value", taint.get("value", ""), label_value)
        key = (taint.get("key", ""), taint.get("effect", ""))
        if key in seen:
            yield FieldError.duplicate(at_taint, taint)
        seen.add(key)
    if old is None:
        return
    before = old.get("spec") or {}
    for field, word in (("podCIDRs", "podCIDR"), ("podCIDR", "podCIDR"), ("providerID", "providerID")):
        if before.get(field) and before[field] != spec.get(field):
            yield FieldError.forbidden(
                f"spec.{field}", f'node updates may not change {word} except from "" to valid'
            )


def _node_status(node: Object, now: float) -> str:
    words = []
    for condition in (node.get("status") or {}).get("conditions") or ():
        if condition.get("type") == "Ready":
            words = ["Ready" if condition.get("status") == "True" else "NotReady"]
    words = words or ["Unknown"]
    if (node.get("spec") or {}).get("unschedulable"):
        words.append("SchedulingDisabled")
    return ",".join(words)


def _roles(node: Object, now: float) -> str:
    found = set()
    for key, value in (node["metadata"].get("labels") or {}).items():
        if key.startswith(_ROLE) and len(key) > len(_ROLE):
            found.add(key.removeprefix(_ROLE))
        elif key == _OLD_ROLE and value:
            found.add(value)
    return ",".join(sorted(found)) or NONE


def _address_of(kind: str) -> Any:
    def cell(node: Object, now: float) -> str:
        for each in (node.get("status") or {}).get("addresses") or ():
            if each.get("type") == kind:
                return str(each.get("address", ""))
        return NONE

    return cell


def _info(field: str) -> Any:
    return lambda node, now: at("status", "nodeInfo", field)(node, now) or UNKNOWN


NAMESPACE_COLUMNS: Final = (NAME, column("Status", "Active or Terminating.", at("status", "phase")), AGE)
NODE_COLUMNS: Final = (
    NAME,
    column("Status", "Whether it takes pods.", _node_status),
    column("Roles", "What it is for.", _roles),
    AGE,
    column("Version", "The version of its agent.", at("status", "nodeInfo", "kubeletVersion")),
    column("Internal-IP", "Its address inside.", _address_of("InternalIP"), wide=True),
    column("External-IP", "Its address outside.", _address_of("ExternalIP"), wide=True),
    column("OS-Image", "Its operating system.", _info("osImage"), wide=True),
    column("Kernel-Version", "Its kernel.", _info("kernelVersion"), wide=True),
    column("Container-Runtime", "What runs its containers.", _info("containerRuntimeVersion"), wide=True),
)
