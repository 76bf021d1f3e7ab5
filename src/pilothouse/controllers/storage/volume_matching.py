"""Which volumes fit a claim.

    volume = best(claim, world.all(PersistentVolume), node=None)

A volume fits if it has the claim's class, volume mode and access modes, is large enough, and has the labels
that the claim selects by. One that is reserved for the claim comes first, then the smallest.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from pilothouse.api.objects import Object
from pilothouse.base.quantity import Quantity, parse_quantity
from pilothouse.controllers.scheduling.node_affinity import selected
from pilothouse.meta.selectors import LabelSelector, SelectorError

SELECTED_NODE: Final = "volume.kubernetes.io/selected-node"
"""The annotation of a claim with its selected node."""
_OLD_CLASS: Final = "volume.beta.kubernetes.io/storage-class"
_DEFAULT_CLASS: Final = (
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
)
NO_PROVISIONER: Final = "kubernetes.io/no-provisioner"


def class_of(one: Object) -> str:
    """The name of a claim's or volume's storage class; empty if it has none."""
    return str(one.annotations.get(_OLD_CLASS) or one.spec.get("storageClassName") or "")


def names_no_class(claim: Object) -> bool:
    """True if the claim gets the default class; an empty name means no class."""
    return claim.spec.get("storageClassName") is None and _OLD_CLASS not in claim.annotations


def default_class(classes: Iterable[Object]) -> Object | None:
    """The default class: the newest that is marked so."""
    marked = [one for one in classes if any(one.annotations.get(mark) == "true" for mark in _DEFAULT_CLASS)]
    return max(marked, key=lambda one: (one.created, one.name), default=None)


def waits_for_pod(storage_class: Object | None) -> bool:
    """True if volumes of a class are bound for their first consumer, not immediately."""
    return storage_class is not None and storage_class.get("volumeBindingMode") == "WaitForFirstConsumer"


def belongs(volume: Object, claim: Object) -> bool:
    """True if the volume is reserved for this claim or bound to it."""
    reference = volume.spec.get("claimRef") or {}
    return (
        reference.get("name") == claim.name
        and reference.get("namespace") == claim.namespace
        and reference.get("uid") in (None, "", claim.uid)
    )


def reachable(volume: Object, node: Object) -> bool:
    """True if the volume can be used on a node; never, if its affinity is invalid."""
    required = (volume.spec.get("nodeAffinity") or {}).get("required")
    try:
        return required is None or selected(required, node)
    except SelectorError:
        return False


def mismatch(claim: Object, volume: Object) -> str:
    """Why this volume does not fit the claim; empty if it does. Raises ValueError."""
    if size(volume) < wanted_size(claim):
        return f"it has {size(volume)} and {wanted_size(claim)} are requested"
    if class_of(volume) != class_of(claim):
        return f"its class is {class_of(volume)!r}, not {class_of(claim)!r}"
    modes = volume.spec.get("volumeMode") or "Filesystem", claim.spec.get("volumeMode") or "Filesystem"
    if modes[0] != modes[1]:
        return f"its volumeMode is {modes[0]}, not {modes[1]}"
    lacking = set(claim.spec.get("accessModes") or ()) - set(volume.spec.get("accessModes") or ())
    return f"it lacks the access mode {', '.join(sorted(lacking))}" if lacking else ""


def best(claim: Object, volumes: Iterable[Object], node: Object | None) -> Object | None:
    """The volume that the claim should have, reachable from a node if one is given. Raises ValueError."""
    given = claim.spec.get("selector")
    selector = LabelSelector.from_object(given) if given else None
    fitting = []
    for volume in volumes:
        if volume.deleting or (node is not None and not reachable(volume, node)):
            continue
        if belongs(volume, claim):
            # A reservation overrides the selector.
            if not mismatch(claim, volume):
                fitting.append((0, size(volume), volume.name, volume))
        elif (
            not volume.spec.get("claimRef")
            and volume.status.get("phase", "Available") in ("Available", "Pending", "")
            and (selector is None or selector.matches(volume.labels))
            and not mismatch(claim, volume)
        ):
            fitting.append((1, size(volume), volume.name, volume))
    return min(fitting, key=lambda one: one[:3])[3] if fitting else None


def size(volume: Object) -> Quantity:
    return _amount(volume.at("spec", "capacity", "storage"))


def wanted_size(claim: Object) -> Quantity:
    return _amount(claim.at("spec", "resources", "requests", "storage"))


def _amount(value: Any) -> Quantity:
    return Quantity(0) if value is None else parse_quantity(value)
