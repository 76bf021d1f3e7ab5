"""Objects that a cluster owns, created and kept up to date.

    yield from ensure_object(cluster, wanted, world)        # a Create, an Update, or nothing

Raises ``NameTaken`` if an object of that name belongs to another owner. Only wanted fields are compared; what
the server defaults, or others add, stays. A part that differs is replaced as a whole, so that fields dropped
from it disappear.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pilothouse.api.kind_names import noun_of
from pilothouse.api.objects import Object, Tree, owner_reference
from pilothouse.runtime.intents import Create, Intent, Update
from pilothouse.runtime.snapshot import Snapshot


class NameTaken(Exception):
    """An object of that name exists and has another owner."""

    def __init__(self, message: str, remedy: str) -> None:
        super().__init__(message)
        self.remedy = remedy


def ensure_object(cluster: Object, wanted: Tree, world: Snapshot, *, event: str = "") -> Iterator[Intent]:
    """Create an object owned by the cluster, or update it to have these fields. Raises NameTaken."""
    noun = noun_of(wanted["apiVersion"], wanted["kind"])
    name = wanted["metadata"]["name"]
    found = world.find(noun, cluster.namespace, name)
    if found is None:
        metadata = {**wanted["metadata"], "ownerReferences": [owner_reference(cluster)]}
        yield Create({**wanted, "metadata": metadata}, because=f"{noun.kind} {name} is missing", event=event)
        return
    check_own(cluster, found)
    if found.deleting:
        return
    differing = [
        part for part in wanted if part != "metadata" and not contains(found.get(part), wanted[part])
    ]
    labels = wanted["metadata"]["labels"]
    if not differing and contains(found.labels, labels):
        return
    tree = found.thawed()
    tree["metadata"]["labels"] = {**found.labels, **labels}
    for part in differing:
        tree[part] = replaced(tree.get(part), wanted[part])
    yield Update(found, tree, because=f"{noun.kind} {name} differs in {', '.join(differing) or 'labels'}")


def check_own(cluster: Object, found: Object) -> None:
    """Raises NameTaken unless this cluster controls it."""
    if found.owned_by(cluster):
        return
    owner = found.controller
    if owner is None:
        whose, remedy = "no one", "delete it, or give the cluster another name"
    elif (owner.get("kind"), owner.get("name")) == (cluster.kind, cluster.name):
        whose, remedy = (
            "an earlier cluster of this name",
            "it is about to be garbage-collected; wait until it is gone",
        )
    else:
        # Its owner needs it.
        whose, remedy = f"{owner.get('kind')} {owner.get('name')}", "give the cluster another name"
    raise NameTaken(f"{found.kind} {found.name} exists and belongs to {whose}, not to this cluster", remedy)


def contains(found: Any, wanted: Any) -> bool:
    """True if all wanted fields are there. Lists are compared item by item."""
    if isinstance(wanted, Mapping):
        return isinstance(found, Mapping) and all(
            name in found and contains(found[name], value) for name, value in wanted.items()
        )
    if isinstance(wanted, (list, tuple)):
        return (
            isinstance(found, (list, tuple))
            and len(found) == len(wanted)
            and all(contains(one, other) for one, other in zip(found, wanted, strict=True))
        )
    return bool(found == wanted)


def replaced(found: Any, wanted: Any) -> Any:
    """The object found, with each wanted field replaced."""
    if isinstance(found, Mapping) and isinstance(wanted, Mapping):
        return {**found, **wanted}
    return wanted
