"""``persistentVolumeClaimRetentionPolicy``: which claims go with what."""

from __future__ import annotations

import pytest
from tests.kit.controller_harness import ControllerHarness, made, reasons
from tests.kit.workloads import stateful_set

from pilothouse.api.kind_names import PersistentVolumeClaim
from pilothouse.api.objects import Object
from pilothouse.controllers.stateful_sets.stateful_set_controller import stateful_sets
from pilothouse.runtime.intents import Delete, PatchObject, RecordEvent

KEPT = ("Retain", "Retain")


def settled(harness: ControllerHarness, when_deleted: str, when_scaled: str) -> Object:
    policy = {"whenDeleted": when_deleted, "whenScaled": when_scaled}
    web = harness.add(stateful_set(claims=["data", "log"], persistentVolumeClaimRetentionPolicy=policy))
    harness.settle(stateful_sets, web)
    return web


def claim(harness: ControllerHarness, name: str) -> Object:
    found = harness.get(PersistentVolumeClaim, name)
    assert found is not None
    return found


def test_claims_are_named_after_template_set_and_ordinal_and_labelled_by_the_selector() -> None:
    harness = ControllerHarness()
    settled(harness, *KEPT)
    assert harness.names(PersistentVolumeClaim) == [
        f"{volume}-web-{ordinal}" for volume in ("data", "log") for ordinal in range(3)
    ]
    assert claim(harness, "data-web-0").labels == {"app": "web"}
    assert claim(harness, "data-web-0").spec["resources"] == {"requests": {"storage": "1Gi"}}
    assert claim(harness, "data-web-0").owners == ()


@pytest.mark.parametrize("when_deleted", ["Retain", "Delete"])
@pytest.mark.parametrize("when_scaled", ["Retain", "Delete"])
def test_scaling_down_takes_claims_along_only_if_asked_to(when_deleted: str, when_scaled: str) -> None:
    harness = ControllerHarness()
    web = settled(harness, when_deleted, when_scaled)
    harness.edit(web, replicas=1)
    harness.settle(stateful_sets, web)
    kept = 1 if when_scaled == "Delete" else 3
    assert len(harness.names(PersistentVolumeClaim)) == 2 * kept
    harness.edit(web, replicas=3)
    assert reasons(harness.settle(stateful_sets, web)) == []
    assert len(harness.names(PersistentVolumeClaim)) == 6


@pytest.mark.parametrize("when_deleted", ["Retain", "Delete"])
@pytest.mark.parametrize("when_scaled", ["Retain", "Delete"])
def test_deleting_the_set_takes_claims_along_only_if_asked_to(when_deleted: str, when_scaled: str) -> None:
    harness = ControllerHarness()
    web = settled(harness, when_deleted, when_scaled)
    harness.delete(web)
    while harness.collect() or harness.run_pods():
        pass
    assert len(harness.names(PersistentVolumeClaim)) == (0 if when_deleted == "Delete" else 6)


def test_the_owner_is_written_before_the_pod_is_deleted() -> None:
    harness = ControllerHarness()
    web = settled(harness, "Retain", "Delete")
    harness.edit(web, replicas=2)
    intents = harness.decide(stateful_sets, web)
    [deletion] = [intent for intent in intents if isinstance(intent, Delete)]
    owners = [intent for intent in intents if isinstance(intent, PatchObject)]
    assert [intent.seen.name for intent in owners] == ["data-web-2", "log-web-2"]
    assert max(map(intents.index, owners)) < intents.index(deletion)


def test_scaling_up_again_in_time_keeps_the_claim() -> None:
    harness = ControllerHarness()
    web = settled(harness, "Delete", "Delete")
    harness.edit(web, replicas=2)
    harness.step(stateful_sets, web, crash_after=2)
    assert claim(harness, "data-web-2").owned_by(harness.pod("web-2"))
    harness.edit(web, replicas=3)
    harness.settle(stateful_sets, web)
    assert claim(harness, "data-web-2").owned_by(web)


def test_changing_the_policy_changes_the_owners_of_what_is_there() -> None:
    harness = ControllerHarness()
    web = settled(harness, *KEPT)
    harness.edit(web, persistentVolumeClaimRetentionPolicy={"whenDeleted": "Delete", "whenScaled": "Retain"})
    harness.settle(stateful_sets, web)
    assert all(one.owned_by(web) for one in harness.all(PersistentVolumeClaim))
    harness.edit(web, persistentVolumeClaimRetentionPolicy={"whenDeleted": "Retain", "whenScaled": "Retain"})
    harness.settle(stateful_sets, web)
    assert not any(one.owners for one in harness.all(PersistentVolumeClaim))


def test_a_claim_that_is_to_be_collected_is_not_used_again() -> None:
    harness = ControllerHarness()
    web = settled(harness, "Retain", "Delete")
    harness.edit(web, replicas=2)
    harness.step(stateful_sets, web)
    harness.remove(harness.pod("web-2"))
    harness.edit(web, replicas=3)
    intents = harness.step(stateful_sets, web)
    assert (made(intents), reasons(intents)) == ([], ["ClaimAbandoned"])
    old = claim(harness, "data-web-2").uid
    harness.collect()
    harness.settle(stateful_sets, web)
    assert claim(harness, "data-web-2").uid != old


def test_a_claim_that_is_to_be_kept_after_all_is_saved_from_the_collector() -> None:
    harness = ControllerHarness()
    web = settled(harness, "Retain", "Delete")
    harness.edit(web, replicas=2)
    harness.step(stateful_sets, web)
    harness.remove(harness.pod("web-2"))
    old = claim(harness, "data-web-2").uid
    harness.edit(
        web,
        replicas=3,
        persistentVolumeClaimRetentionPolicy={"whenDeleted": "Retain", "whenScaled": "Retain"},
    )
    harness.settle(stateful_sets, web)
    assert claim(harness, "data-web-2").uid == old


def test_a_claim_that_is_being_deleted_is_waited_for() -> None:
    harness = ControllerHarness()
    web = settled(harness, *KEPT)
    harness.change(
        claim(harness, "data-web-0"),
        lambda tree: tree["metadata"].update(finalizers=["kubernetes.io/pvc-protection"]),
    )
    harness.delete(claim(harness, "data-web-0"))
    harness.remove(harness.pod("web-0"))
    intents = harness.settle(stateful_sets, web)
    assert (made(intents), reasons(intents)) == ([], ["ClaimTerminating"])
    harness.remove(claim(harness, "data-web-0"))
    assert made(harness.step(stateful_sets, web), "PersistentVolumeClaim") == ["data-web-0"]


def test_a_claim_of_a_former_set_of_that_name_is_left_to_the_collector() -> None:
    harness = ControllerHarness()
    web = settled(harness, "Delete", "Retain")
    old = claim(harness, "data-web-0").uid
    harness.delete(web)
    again = harness.add(stateful_set(claims=["data", "log"]))
    harness.run_pods()
    for name in ("web-0", "web-1", "web-2"):
        harness.remove(harness.pod(name))
    assert reasons(harness.step(stateful_sets, again)) == ["ClaimAbandoned"]
    harness.settle(stateful_sets, again)
    assert claim(harness, "data-web-0").uid != old


def test_a_claim_that_somebody_else_controls_is_not_fought_over() -> None:
    harness = ControllerHarness()
    web = settled(harness, "Delete", "Retain")
    other = {"apiVersion": "x/v1", "kind": "Thing", "name": "t", "uid": web.uid + "x", "controller": True}
    harness.change(
        claim(harness, "data-web-0"),
        lambda tree: tree["metadata"]["ownerReferences"].insert(0, other),
    )
    intents = harness.step(stateful_sets, web)
    assert [intent.event for intent in intents if isinstance(intent, RecordEvent)] == [
        "ConflictingController"
    ]
    assert [owner["kind"] for owner in claim(harness, "data-web-0").owners] == ["Thing"]
    assert harness.step(stateful_sets, web) == []
