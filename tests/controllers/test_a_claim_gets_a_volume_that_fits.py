"""Claims and volumes, as decisions: who gets what, who waits for what, and what becomes of what is left."""

from __future__ import annotations

from typing import Any

import pytest
from tests.kit.scheduling_objects import claim, node, pod, seen, storage_class, volume

from pilothouse.api.objects import Tree
from pilothouse.controllers.storage.claim_binder import claims
from pilothouse.controllers.storage.protection import claim_protection, volume_protection
from pilothouse.controllers.storage.volume_lifecycle import volumes
from pilothouse.runtime.intents import Intent, PatchObject, RecordEvent, SetStatus, Wait

SELECTED = "volume.kubernetes.io/selected-node"


def outcome(*trees: Tree) -> str:
    """The volume that the first, a claim, gets; or the reason why it waits."""
    intents = seen(claims, *trees)
    waits = [one.reason for one in intents if isinstance(one, Wait)]
    if waits:
        (wait,) = (one for one in intents if isinstance(one, Wait))
        assert wait.remedy
        return waits[0]
    patches = [one for one in intents if isinstance(one, PatchObject)]
    assert [one.seen.kind for one in patches] == ["PersistentVolume", "PersistentVolumeClaim"]
    assert isinstance(intents[-1], SetStatus)
    assert intents[-1].status["phase"] == "Bound"
    return patches[0].seen.name


def annotated(tree: Tree, **annotations: str) -> Tree:
    return {**tree, "metadata": {**tree["metadata"], "annotations": dict(annotations)}}


def labelled(tree: Tree, **labels: str) -> Tree:
    return {**tree, "metadata": {**tree["metadata"], "labels": labels}}


def sent_to(name: str, tree: Tree) -> Tree:
    return annotated(tree, **{SELECTED: name})


def reference(name: str, uid: str = "") -> Tree:
    return {"claimRef": {"namespace": "default", "name": name, **({"uid": uid} if uid else {})}}


LOCAL = storage_class("local", waits=True, provisioner="kubernetes.io/no-provisioner")
MADE = storage_class("made")


@pytest.mark.parametrize(
    ("asked", "there", "result"),
    [
        pytest.param(claim(size="2Gi"), [volume("a", size="1Gi"), volume("b", size="9Gi"), volume("c", size="3Gi")], "c", id="the smallest"),
        pytest.param(claim(), [volume("a", **reference("other"))], "NoVolume", id="set aside for another"),
        pytest.param(claim(), [volume("a"), volume("b", size="9Gi", **reference("data"))], "b", id="set aside for it"),
        pytest.param(claim(), [volume("a", **reference("data", "uid-older"))], "NoVolume", id="an older claim's"),
        pytest.param(claim(), [volume("a", phase="Released")], "NoVolume", id="not clean"),
        pytest.param(claim(accessModes=["ReadWriteMany"]), [volume("a")], "NoVolume", id="access mode"),
        pytest.param(claim(volumeMode="Block"), [volume("a"), volume("b", volumeMode="Block")], "b", id="mode"),
        pytest.param(claim(storageClassName="fast"), [volume("a"), volume("b", storageClassName="fast")], "b", id="class"),
        pytest.param(claim(selector={"matchLabels": {"disk": "ssd"}}), [volume("a"), labelled(volume("b", size="5Gi"), disk="ssd")], "b", id="labels"),
        pytest.param(claim(volumeName="b"), [volume("a"), volume("b")], "b", id="by name"),
        pytest.param(claim(volumeName="b"), [volume("a")], "VolumeMissing", id="by a name that is not there"),
        pytest.param(claim(volumeName="b", size="2Gi"), [volume("b")], "VolumeMismatch", id="too small by name"),
        pytest.param(claim(volumeName="b"), [volume("b", **reference("other", "uid-other"))], "VolumeTaken", id="taken"),
        pytest.param(claim(storageClassName="gone"), [], "NoVolume", id="no such class"),
        pytest.param(claim(storageClassName="local"), [LOCAL, volume("a", storageClassName="local")], "WaitForFirstConsumer", id="no pod yet"),
        pytest.param(
            sent_to("n2", claim(storageClassName="local")),
            [LOCAL, node("n2"), volume("a", storageClassName="local", on="n1"), volume("b", storageClassName="local", on="n2")],
            "b",
            id="where the pod will be",
        ),
    ],
)  # fmt: skip
def test_a_claim_gets_a_volume_or_says_what_it_waits_for(asked: Tree, there: list[Tree], result: str) -> None:
    assert outcome(asked, *there) == result


def test_a_volume_is_asked_for_where_there_is_a_provisioner() -> None:
    asked, wait = seen(claims, claim(storageClassName="made"), MADE)
    assert isinstance(asked, PatchObject)
    assert (
        asked.fields["metadata"]["annotations"]["volume.kubernetes.io/storage-provisioner"]
        == "example.com/disks"
    )
    assert asked.event == "ExternalProvisioning"
    assert isinstance(wait, Wait)
    again = seen(
        claims, annotated(claim(storageClassName="made"), **asked.fields["metadata"]["annotations"]), MADE
    )
    assert [type(one) for one in again] == [Wait]


def test_what_the_provisioner_says_against_it_is_what_the_claim_waits_for() -> None:
    asked = annotated(
        claim(storageClassName="made"), **{"volume.kubernetes.io/storage-provisioner": "example.com/disks"}
    )
    asked["status"]["conditions"] = [
        {"type": "pilothouse.io/Provisioned", "status": "False", "message": "node n1: the disk is full"}
    ]
    (wait,) = seen(claims, asked, MADE)
    assert isinstance(wait, Wait)
    assert wait.reason == "ProvisioningFailed"
    assert wait.because == "example.com/disks can't create its volume: node n1: the disk is full"


def test_a_claim_for_storage_of_nodes_needs_a_class_that_waits_for_a_node() -> None:
    hasty = storage_class("hasty", provisioner="pilothouse.io/loop")
    (wait,) = seen(claims, claim(storageClassName="hasty"), hasty)
    assert isinstance(wait, Wait)
    assert wait.reason == "NoNodeChosen"
    assert "WaitForFirstConsumer" in (wait.remedy or "")


def test_a_claim_without_a_class_gets_the_default_one_and_one_with_an_empty_class_none() -> None:
    default = annotated(storage_class("std"), **{"storageclass.kubernetes.io/is-default-class": "true"})
    (patch,) = seen(claims, claim(), default, MADE)
    assert isinstance(patch, PatchObject)
    assert patch.fields == {"spec": {"storageClassName": "std"}}
    assert outcome(claim(storageClassName=""), default) == "NoVolume"


@pytest.mark.parametrize("there", [[node("n1")], []], ids=["no volume left there", "the node is gone"])
def test_another_node_is_chosen_when_the_first_will_not_do(there: list[Tree]) -> None:
    patch = seen(claims, sent_to("n1", claim(storageClassName="local")), LOCAL, *there)[0]
    assert isinstance(patch, PatchObject)
    assert patch.fields == {"metadata": {"annotations": {SELECTED: None}}}


def bound_claim(**fields: Any) -> Tree:
    tree = claim(volumeName="v", status={"phase": "Bound"}, **fields)
    return annotated(tree, **{"pv.kubernetes.io/bind-completed": "yes"})


def test_a_claim_that_has_its_volume_is_left_alone() -> None:
    assert seen(claims, bound_claim(), volume("v", phase="Bound", **reference("data", "uid-data"))) == []


@pytest.mark.parametrize(
    "there", [[], [volume("v", **reference("x", "uid-x"))]], ids=["gone", "another claim's"]
)
def test_a_claim_whose_volume_is_gone_is_lost(there: list[Tree]) -> None:
    lost, told, _ = seen(claims, bound_claim(), *there)
    assert isinstance(lost, SetStatus)
    assert lost.status["phase"] == "Lost"
    assert isinstance(told, RecordEvent)
    assert told.warning


def phase(intents: list[Intent]) -> str:
    (patch,) = (one for one in intents if isinstance(one, PatchObject))
    assert patch.subresource == "status"
    return str(patch.fields["status"]["phase"])


OURS = reference("data", "uid-data")


def test_a_volume_says_whether_it_is_free() -> None:
    assert phase(seen(volumes, volume("v", phase=""))) == "Available"
    assert phase(seen(volumes, volume("v", phase="", **reference("data")), claim())) == "Available"
    assert phase(seen(volumes, volume("v", **OURS), claim(volumeName="v"))) == "Bound"
    assert seen(volumes, volume("v", phase="Bound", **OURS), claim(volumeName="v")) == []
    waiting = seen(volumes, volume("v", **OURS), claim())
    assert [type(one) for one in waiting] == [Wait]


def test_a_volume_that_its_claim_left_behind_is_kept_or_handed_to_who_made_it() -> None:
    kept = seen(volumes, volume("v", phase="Bound", **OURS))
    assert phase(kept) == "Released"
    assert [one.unless[0].uid for one in kept if isinstance(one, PatchObject)] == ["uid-data"]
    handed = annotated(
        volume("v", phase="Bound", persistentVolumeReclaimPolicy="Delete", **OURS),
        **{"pv.kubernetes.io/provisioned-by": "example.com/disks"},
    )
    intents = seen(volumes, handed)
    assert phase(intents) == "Released"
    assert [one.reason for one in intents if isinstance(one, Wait)] == ["Reclaiming"]
    nobody = volume("v", phase="Bound", persistentVolumeReclaimPolicy="Delete", **OURS)
    assert phase(seen(volumes, nobody)) == "Failed"


def test_a_volume_that_its_claim_did_not_take_is_free_again() -> None:
    other = claim(volumeName="w")
    by_us = annotated(volume("v", **OURS), **{"pv.kubernetes.io/bound-by-controller": "yes"})
    (patch,) = seen(volumes, by_us, other)
    assert isinstance(patch, PatchObject)
    assert patch.fields["spec"] == {"claimRef": None}
    (patch,) = seen(volumes, volume("v", **OURS), other)
    assert isinstance(patch, PatchObject)
    assert patch.fields["spec"] == {"claimRef": {"uid": None}}


def going(tree: Tree, *finalizers: str) -> Tree:
    meta = {**tree["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": list(finalizers)}
    return {**tree, "metadata": meta}


def finalizers(intents: list[Intent]) -> Any:
    (patch,) = intents
    assert isinstance(patch, PatchObject)
    assert patch.exact
    return patch.fields["metadata"]["finalizers"]


def test_claims_and_volumes_are_protected_from_the_start() -> None:
    assert finalizers(seen(claim_protection, claim())) == ["kubernetes.io/pvc-protection"]
    assert finalizers(seen(volume_protection, volume("v"))) == ["kubernetes.io/pv-protection"]


def test_a_claim_goes_when_no_pod_on_a_node_uses_it() -> None:
    doomed = going(claim(), "x", "kubernetes.io/pvc-protection")
    (wait,) = seen(claim_protection, doomed, pod("p", on="n1", claims=["data"]))
    assert isinstance(wait, Wait)
    assert "p" in wait.because
    assert finalizers(seen(claim_protection, doomed, pod("p", claims=["data"]))) == ["x"]
    assert finalizers(seen(claim_protection, going(claim(), "kubernetes.io/pvc-protection"))) is None


def test_a_volume_goes_when_no_claim_has_it() -> None:
    doomed = going(volume("v", **OURS), "kubernetes.io/pv-protection")
    (wait,) = seen(volume_protection, doomed, claim(volumeName="v"))
    assert isinstance(wait, Wait)
    freed = seen(volume_protection, doomed)
    assert finalizers(freed) is None
    assert isinstance(freed[0], PatchObject)
    assert freed[0].unless[0].uid == "uid-data"


def test_a_volume_whose_affinity_cant_be_read_keeps_no_other_claim_waiting() -> None:
    unreadable = {"key": "kubernetes.io/hostname", "operator": "Foo", "values": ["n1"]}
    affinity = {"required": {"nodeSelectorTerms": [{"matchExpressions": [unreadable]}]}}
    asked = sent_to("n1", claim(storageClassName="local"))
    fitting = volume("b", storageClassName="local")
    bad = volume("a", storageClassName="local", nodeAffinity=affinity)
    assert outcome(asked, LOCAL, node("n1"), bad, fitting) == "b"
