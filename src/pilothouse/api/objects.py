"""An object as those see it who decide about it: a tree that is not changed, and names for what every kind has.

    pod = Object.of(tree)
    pod.name, pod.labels.get("app"), pod["spec"]["nodeName"], pod.at("status", "phase", default="Pending")
    pod.controller                     # the reference to its controlling owner, or None

The tree is shared by all who look at it and must be left as it is; what should be different goes into an intent.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pilothouse.base.times import parse_time
from pilothouse.meta.conditions import find_condition

Tree = dict[str, Any]

_NOTHING: Mapping[str, Any] = {}


class Object:
    """A read-only view of an object's tree. Two are equal if they are the same version of the same object."""

    __slots__ = ("meta", "tree")

    def __init__(self, tree: Tree) -> None:
        self.tree = tree
        self.meta: Tree = tree["metadata"]

    @classmethod
    def of(cls, tree: Tree) -> Object:
        """The view of a tree, whose metadata may be missing."""
        return cls(tree if "metadata" in tree else {**tree, "metadata": {}})

    @property
    def api_version(self) -> str:
        return str(self.tree.get("apiVersion", ""))

    @property
    def kind(self) -> str:
        return str(self.tree.get("kind", ""))

    @property
    def name(self) -> str:
        return str(self.meta.get("name", ""))

    @property
    def namespace(self) -> str:
        """Empty for a cluster-wide object."""
        return str(self.meta.get("namespace", ""))

    @property
    def uid(self) -> str:
        return str(self.meta.get("uid", ""))

    @property
    def resource_version(self) -> str:
        return str(self.meta.get("resourceVersion", ""))

    @property
    def generation(self) -> int:
        return int(self.meta.get("generation", 0))

    @property
    def labels(self) -> Mapping[str, str]:
        return self.meta.get("labels") or _NOTHING

    @property
    def annotations(self) -> Mapping[str, str]:
        return self.meta.get("annotations") or _NOTHING

    @property
    def finalizers(self) -> Sequence[str]:
        return self.meta.get("finalizers") or ()

    @property
    def owners(self) -> Sequence[Mapping[str, Any]]:
        """Its owner references."""
        return self.meta.get("ownerReferences") or ()

    @property
    def controller(self) -> Mapping[str, Any] | None:
        """The owner reference that says who controls it."""
        return next((owner for owner in self.owners if owner.get("controller")), None)

    @property
    def created(self) -> float:
        """When it was made, in seconds since 1970."""
        return self.moment("metadata", "creationTimestamp") or 0.0

    @property
    def deleting(self) -> bool:
        """True once somebody has asked for its deletion."""
        return "deletionTimestamp" in self.meta

    @property
    def spec(self) -> Mapping[str, Any]:
        return self.tree.get("spec") or _NOTHING

    @property
    def status(self) -> Mapping[str, Any]:
        return self.tree.get("status") or _NOTHING

    def __getitem__(self, field: str) -> Any:
        return self.tree[field]

    def get(self, field: str, default: Any = None) -> Any:
        """A field of the tree's first level."""
        return self.tree.get(field, default)

    def at(self, *path: str, default: Any = None) -> Any:
        """The value at a path of field names, or the default where the path ends early or in null."""
        found: Any = self.tree
        for field in path:
            if not isinstance(found, Mapping) or (found := found.get(field)) is None:
                return default
        return found

    def moment(self, *path: str) -> float | None:
        """The RFC 3339 time at a path, in seconds since 1970."""
        text = self.at(*path)
        return parse_time(text) if text else None

    def condition(self, kind: str) -> Mapping[str, Any] | None:
        """The status condition of this type."""
        return find_condition(self.status.get("conditions"), kind)

    def is_true(self, kind: str) -> bool:
        """True if the status condition of this type is."""
        found = self.condition(kind)
        return found is not None and found.get("status") == "True"

    def owned_by(self, owner: Object) -> bool:
        """True if this very owner controls it."""
        reference = self.controller
        return reference is not None and reference.get("uid") == owner.uid

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Object)
            and self.uid == other.uid
            and self.resource_version == other.resource_version
            and (bool(self.uid) or self.tree == other.tree)
        )

    def __hash__(self) -> int:
        return hash((self.uid, self.resource_version))

    def __repr__(self) -> str:
        where = f"{self.namespace}/{self.name}" if self.namespace else self.name
        return f"<{self.kind} {where} @{self.resource_version}>"


def owner_reference(owner: Object, *, controller: bool = True, blocks: bool = True) -> Tree:
    """The reference by which an object says that this one owns it."""
    return {
        "apiVersion": owner.api_version,
        "kind": owner.kind,
        "name": owner.name,
        "uid": owner.uid,
        "controller": controller,
        "blockOwnerDeletion": blocks,
    }
