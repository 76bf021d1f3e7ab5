"""The templates of a set, past and present, as ControllerRevisions.

    history = settle(set, wanted, members.revisions, world)
    history.update.name             # "web-6c9f7d5b8k": the revision of updated pods
    history.current                 # the revision before this update
    history.intents                 # the revision to create or renumber

A revision is named after a digest of its template, so creation is idempotent; the set's collision count goes
into the digest if the name is taken. A template that is used again is the old revision with a higher number,
which ``kubectl rollout undo`` relies on.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final

import msgspec

from pilothouse.api.kind_names import ControllerRevision
from pilothouse.api.objects import Object, Tree, owner_reference
from pilothouse.controllers.stateful_sets.set_members import number
from pilothouse.controllers.stateful_sets.set_spec import SetSpec
from pilothouse.runtime.intents import Create, Delete, Intent, PatchObject
from pilothouse.runtime.snapshot import Snapshot

HASH: Final = "controller.kubernetes.io/hash"
_LETTERS: Final = "bcdfghjklmnpqrstvwxz2456789"
"""Without vowels and look-alikes, so that no digest spells a word."""
_DIGITS: Final = 10
_LONGEST_PREFIX: Final = 223


class SetRevision(msgspec.Struct, frozen=True):
    """A template by name. ``template`` is None if the ControllerRevision contains none."""

    name: str
    template: Tree | None


class RevisionHistory(msgspec.Struct, frozen=True):
    """The current and the update revision, and the writes that they need."""

    current: SetRevision
    update: SetRevision
    collisions: int
    intents: tuple[Intent, ...] = ()


def settle(
    stateful_set: Object, wanted: SetSpec, revisions: tuple[Object, ...], world: Snapshot
) -> RevisionHistory:
    """The current and the latest revision of a set. ``revisions`` go from the oldest to the latest."""
    recorded = stateful_set.status.get("collisionCount")
    collisions = recorded if isinstance(recorded, int) else 0
    intents: tuple[Intent, ...] = ()
    latest = max((number(one) for one in revisions), default=0)
    same = [one for one in revisions if template_of(one) == _bare(wanted.template)]
    if same:
        found = same[-1]
        name = found.name
        if found is not revisions[-1]:
            because = f"the template equals that of revision {number(found)}"
            intents = (PatchObject(found, {"revision": latest + 1}, because=because),)
    else:
        name, collisions = _free_name(stateful_set, wanted, collisions, world)
        tree = _new(stateful_set, wanted, name, latest + 1)
        intents = (Create(tree, because=f"recording the template as revision {latest + 1}"),)
    update = SetRevision(name, wanted.template)
    former = stateful_set.status.get("currentRevision")
    known = (SetRevision(one.name, template_of(one)) for one in revisions if one.name == former)
    current = next(known, update)
    return RevisionHistory(current if current.name != update.name else update, update, collisions, intents)


def outlived(wanted: SetSpec, revisions: tuple[Object, ...], used: Collection[str]) -> Iterator[Intent]:
    """Delete revisions beyond the history limit, except those that a pod or the set uses."""
    past = [one for one in revisions if one.name not in used and not one.deleting]
    for revision in past[: max(0, len(past) - wanted.history_limit)]:
        because = (
            f"revision {number(revision)} is older than the {wanted.history_limit} "
            "that spec.revisionHistoryLimit keeps"
        )
        yield Delete(revision, because=because)


def template_of(revision: Object) -> Tree | None:
    """The template in a revision, if there is one."""
    template = revision.at("data", "spec", "template")
    return _bare(template) if isinstance(template, dict) else None


def _bare(template: Mapping[str, Any]) -> Tree:
    """Without patch directives and nulls."""
    tree = {field: value for field, value in template.items() if field != "$patch"}
    metadata = tree.get("metadata")
    if isinstance(metadata, dict):
        tree["metadata"] = {field: value for field, value in metadata.items() if value is not None}
    return tree


def _data(template: Tree) -> Tree:
    """As kubectl expects it: a strategic merge patch that replaces the template."""
    metadata = {"creationTimestamp": None, **(template.get("metadata") or {})}
    return {"spec": {"template": {**template, "metadata": metadata, "$patch": "replace"}}}


def _digest(wanted: SetSpec, collisions: int) -> str:
    text = msgspec.json.encode(_bare(wanted.template), order="sorted") + str(collisions).encode()
    value = int.from_bytes(hashlib.sha256(text).digest(), "big")
    letters = []
    for _ in range(_DIGITS):
        value, letter = divmod(value, len(_LETTERS))
        letters.append(_LETTERS[letter])
    return "".join(letters)


def _free_name(stateful_set: Object, wanted: SetSpec, collisions: int, world: Snapshot) -> tuple[str, int]:
    while True:
        name = f"{stateful_set.name[:_LONGEST_PREFIX]}-{_digest(wanted, collisions)}"
        if world.find(ControllerRevision, stateful_set.namespace, name) is None:
            return name, collisions
        collisions += 1


def _new(stateful_set: Object, wanted: SetSpec, name: str, revision: int) -> Tree:
    labels = (wanted.template.get("metadata") or {}).get("labels") or {}
    annotations = {"annotations": dict(stateful_set.annotations)} if stateful_set.annotations else {}
    return {
        "apiVersion": ControllerRevision.api_version,
        "kind": ControllerRevision.kind,
        "metadata": {
            "name": name,
            "namespace": stateful_set.namespace,
            "labels": {**labels, HASH: name.rpartition("-")[2]},
            **annotations,
            "ownerReferences": [owner_reference(stateful_set)],
        },
        "data": _data(wanted.template),
        "revision": revision,
    }
