"""Garbage collection, as a decision."""

from __future__ import annotations

from typing import Any

import pytest

from pilothouse.api.kind_names import ConfigMap, KindName, Node, Pod, StatefulSet
from pilothouse.api.objects import Object
from pilothouse.controllers.garbage_collector import garbage, relatives
from pilothouse.runtime.controller import ReconcileKey
from pilothouse.runtime.intents import Delete, ObjectTarget, PatchObject, RecordEvent, Wait
from pilothouse.runtime.snapshot import Snapshot, StaticView

NOW = 1_700_000_000.0


def an_object(
    noun: KindName, name: str, *, uid: str = "", owners: tuple[Any, ...] = (), **meta: Any
) -> Object:
    metadata = {"name": name, "uid": uid or f"uid-{name}", "resourceVersion": "7", **meta}
    if noun.namespaced:
        metadata["namespace"] = "default"
    if owners:
        metadata["ownerReferences"] = list(owners)
    return Object.of({"apiVersion": noun.api_version, "kind": noun.kind, "metadata": metadata})


def owner(noun: KindName, name: str, *, uid: str = "", blocks: bool = False) -> dict[str, Any]:
    reference = {
        "apiVersion": noun.api_version,
        "kind": noun.kind,
        "name": name,
        "uid": uid or f"uid-{name}",
    }
    return {**reference, "blockOwnerDeletion": True} if blocks else reference


def a_world(*objects: Object) -> Snapshot:
    nouns = (Pod, StatefulSet, ConfigMap, Node)
    return Snapshot(
        {noun: StaticView(one for one in objects if one.kind == noun.kind) for noun in nouns},
        now=NOW,
    )


DELETED: dict[str, Any] = {"deletionTimestamp": "2023-11-14T22:13:20Z"}


def test_nothing_happens_while_the_owner_lives() -> None:
    pod = an_object(Pod, "web-0", owners=(owner(StatefulSet, "web"),))
    assert garbage(pod, a_world(pod, an_object(StatefulSet, "web"))) == []


def test_an_object_without_owners_is_left_alone() -> None:
    pod = an_object(Pod, "web-0")
    assert garbage(pod, a_world(pod)) == []


def test_a_dependent_goes_when_its_owner_has_gone_and_the_server_confirms_it() -> None:
    pod = an_object(Pod, "web-0", owners=(owner(StatefulSet, "web"),))
    (deletion,) = garbage(pod, a_world(pod))
    assert isinstance(deletion, Delete)
    assert deletion.seen == pod
    assert deletion.propagation == "Background"
    assert deletion.unless == (ObjectTarget(StatefulSet, "default", "web", "uid-web"),)
    assert deletion.because == "StatefulSet web is gone"


@pytest.mark.parametrize("waits", [False, True])
def test_only_the_version_that_was_seen_goes_since_another_may_have_another_owner(waits: bool) -> None:
    pod = an_object(Pod, "web-0", owners=(owner(StatefulSet, "web"),))
    waiting = an_object(StatefulSet, "web", finalizers=["foregroundDeletion"], **DELETED)
    dependent = an_object(ConfigMap, "below", owners=(owner(Pod, "web-0"),))
    [intent] = garbage(pod, a_world(pod, waiting, dependent) if waits else a_world(pod))
    assert isinstance(intent, Delete)
    assert intent.exact


def test_a_namesake_made_later_is_not_the_owner() -> None:
    pod = an_object(Pod, "web-0", owners=(owner(StatefulSet, "web", uid="older"),))
    (deletion,) = garbage(pod, a_world(pod, an_object(StatefulSet, "web", uid="newer")))
    assert isinstance(deletion, Delete)


def test_an_owner_that_goes_without_waiting_still_counts_until_it_is_gone() -> None:
    pod = an_object(Pod, "web-0", owners=(owner(StatefulSet, "web"),))
    assert garbage(pod, a_world(pod, an_object(StatefulSet, "web", finalizers=["x/y"], **DELETED))) == []


def test_one_living_owner_is_enough_and_the_gone_one_is_forgotten() -> None:
    pod = an_object(Pod, "web-0", owners=(owner(StatefulSet, "web"), owner(StatefulSet, "other")))
    (patch,) = garbage(pod, a_world(pod, an_object(StatefulSet, "web")))
    assert isinstance(patch, PatchObject)
    assert patch.exact
    assert patch.fields == {"metadata": {"ownerReferences": [owner(StatefulSet, "web")]}}
    assert patch.unless == (ObjectTarget(StatefulSet, "default", "other", "uid-other"),)


def test_a_dependent_of_an_owner_in_foreground_deletion_goes_first() -> None:
    pod = an_object(Pod, "web-0", owners=(owner(StatefulSet, "web", blocks=True),))
    going = an_object(StatefulSet, "web", finalizers=["foregroundDeletion"], **DELETED)
    (deletion,) = garbage(pod, a_world(pod, going))
    assert isinstance(deletion, Delete)
    assert deletion.propagation == "Background"
    (wait,) = garbage(going, a_world(pod, going))
    assert isinstance(wait, Wait)
    assert "Pod web-0" in wait.because


def test_a_dependent_with_dependents_of_its_own_goes_in_foreground_too() -> None:
    going = an_object(StatefulSet, "web", finalizers=["foregroundDeletion"], **DELETED)
    pod = an_object(Pod, "web-0", owners=(owner(StatefulSet, "web", blocks=True),))
    settings = an_object(ConfigMap, "web-0", owners=(owner(Pod, "web-0", uid="uid-web-0"),))
    (deletion,) = garbage(pod, a_world(pod, going, settings))
    assert isinstance(deletion, Delete)
    assert deletion.propagation == "Foreground"


def test_an_owner_is_released_when_no_dependent_blocks_it() -> None:
    going = an_object(StatefulSet, "web", finalizers=["foregroundDeletion", "a/b"], **DELETED)
    pod = an_object(Pod, "web-0", owners=(owner(StatefulSet, "web"),))
    (patch,) = garbage(going, a_world(going, pod))
    assert isinstance(patch, PatchObject)
    assert patch.fields == {"metadata": {"finalizers": ["a/b"]}}


def test_finalizers_that_hold_a_blocking_dependent_are_named() -> None:
    going = an_object(StatefulSet, "web", finalizers=["foregroundDeletion"], **DELETED)
    pod = an_object(
        Pod, "web-0", owners=(owner(StatefulSet, "web", blocks=True),), finalizers=["a/b"], **DELETED
    )
    (wait,) = garbage(going, a_world(going, pod))
    assert isinstance(wait, Wait)
    assert "a/b" in wait.remedy


def test_orphaned_dependents_stay_and_forget_their_owner_before_it_goes() -> None:
    going = an_object(StatefulSet, "web", finalizers=["orphan"], **DELETED)
    pod = an_object(Pod, "web-0", owners=(owner(StatefulSet, "web"),))
    forgotten, released = garbage(going, a_world(going, pod))
    assert isinstance(forgotten, PatchObject)
    assert forgotten.seen == pod
    assert forgotten.fields == {"metadata": {"ownerReferences": None}}
    assert isinstance(released, PatchObject)
    assert released.seen == going
    assert released.fields == {"metadata": {"finalizers": None}}


def test_a_kind_that_nobody_knows_is_waited_for() -> None:
    pod = an_object(
        Pod, "web-0", owners=({"apiVersion": "x.io/v1", "kind": "Gone", "name": "a", "uid": "u"},)
    )
    (wait,) = garbage(pod, a_world(pod))
    assert isinstance(wait, Wait)
    assert wait.reason == "UnknownOwnerKind"


def test_a_cluster_wide_object_can_not_belong_to_a_namespaced_one() -> None:
    node = an_object(Node, "n1", owners=(owner(StatefulSet, "web"),))
    (event,) = garbage(node, a_world(node))
    assert isinstance(event, RecordEvent)
    assert event.event == "OwnerRefInvalidNamespace"


def test_a_change_concerns_owners_and_dependents() -> None:
    pod = an_object(Pod, "web-0", owners=(owner(StatefulSet, "web"),))
    settings = an_object(ConfigMap, "c", owners=(owner(Pod, "web-0"),))
    assert set(relatives(pod, a_world(pod, settings))) == {
        ReconcileKey(StatefulSet, "default", "web"),
        ReconcileKey(ConfigMap, "default", "c"),
    }


def foreground(name: str, *above: str) -> Object:
    owners = tuple(owner(ConfigMap, each, blocks=True) for each in above)
    return an_object(ConfigMap, name, owners=owners, finalizers=["foregroundDeletion"], **DELETED)


def test_objects_that_own_each_other_stop_blocking_each_other() -> None:
    ring = [foreground("a", "c"), foreground("b", "a", "outside"), foreground("c", "b")]
    (patch,) = garbage(ring[1], a_world(*ring, foreground("outside")))
    assert isinstance(patch, PatchObject)
    blocking = {
        each["name"]: each["blockOwnerDeletion"] for each in patch.fields["metadata"]["ownerReferences"]
    }
    assert blocking == {"a": False, "outside": True}, "only the reference that closes the ring"


def test_an_owner_outside_a_ring_still_waits() -> None:
    ring = [foreground("a", "c"), foreground("b", "a", "outside"), foreground("c", "b")]
    outside = foreground("outside")
    (waits,) = garbage(outside, a_world(*ring, outside))
    assert isinstance(waits, Wait)


def test_an_object_of_another_namespace_holds_no_owner_back() -> None:
    parent = foreground("parent")
    child = {"name": "child", "namespace": "elsewhere", "uid": "uid-child", "resourceVersion": "7"}
    foreign = Object.of(
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {**child, "ownerReferences": [owner(ConfigMap, "parent", blocks=True)]},
        }
    )
    (released,) = garbage(parent, a_world(parent, foreign))
    assert isinstance(released, PatchObject)
    assert a_world(parent, foreign).owned(ConfigMap, parent) == []


@pytest.mark.parametrize("name", ["..", "a/b", "a" * 200_000], ids=["dots", "slash", "long"])
def test_an_owner_whose_name_no_object_can_have_is_gone(name: str) -> None:
    pod = an_object(Pod, "web-0", owners=(owner(StatefulSet, name),))
    (deletion,) = garbage(pod, a_world(pod))
    assert isinstance(deletion, Delete)
    assert deletion.unless == (), "the server can't be asked for such a name"
