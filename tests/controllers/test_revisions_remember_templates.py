"""The history of a set: what ``kubectl rollout history`` and ``undo`` work with."""

from __future__ import annotations

from typing import Any

import pytest
from tests.kit.controller_harness import ControllerHarness, created, reasons
from tests.kit.workloads import pod_template, rolling, stateful_set

from pilothouse.api.kind_names import ControllerRevision
from pilothouse.api.objects import Object
from pilothouse.controllers.stateful_sets.stateful_set_controller import stateful_sets


def history(harness: ControllerHarness) -> dict[int, str]:
    """The image of each revision."""
    return {
        revision["revision"]: revision["data"]["spec"]["template"]["spec"]["containers"][0]["image"]
        for revision in sorted(harness.all(ControllerRevision), key=lambda one: one["revision"])
    }


def rolled(harness: ControllerHarness, *images: str, **spec: Any) -> Object:
    web = harness.add(stateful_set(image=images[0], **spec))
    harness.settle(stateful_sets, web)
    for image in images[1:]:
        harness.edit(web, template=pod_template(image))
        harness.settle(stateful_sets, web)
    return web


def test_each_template_is_a_revision_that_the_set_owns() -> None:
    harness = ControllerHarness()
    web = rolled(harness, "app:1", "app:2")
    assert history(harness) == {1: "app:1", 2: "app:2"}
    latest = next(one for one in harness.all(ControllerRevision) if one["revision"] == 2)
    assert latest.owned_by(web)
    assert latest.name == harness.status(web)["updateRevision"]
    assert latest.labels["app"] == "web"
    assert latest.name.endswith(latest.labels["controller.kubernetes.io/hash"])
    assert latest["data"]["spec"]["template"]["$patch"] == "replace"
    assert harness.pod("web-0").labels["controller-revision-hash"] == latest.name


def test_a_template_that_comes_back_is_its_old_revision_with_a_new_number() -> None:
    harness = ControllerHarness()
    web = rolled(harness, "app:1", "app:2")
    first = next(one.name for one in harness.all(ControllerRevision) if one["revision"] == 1)
    harness.edit(web, template=pod_template("app:1"))
    harness.settle(stateful_sets, web)
    assert history(harness) == {2: "app:2", 3: "app:1"}
    assert harness.status(web)["currentRevision"] == first


def test_the_history_ends_at_its_limit() -> None:
    harness = ControllerHarness()
    rolled(harness, "app:1", "app:2", "app:3", "app:4", revisionHistoryLimit=1)
    assert history(harness) == {3: "app:3", 4: "app:4"}


def test_a_revision_that_pods_are_made_from_is_not_history() -> None:
    harness = ControllerHarness()
    rolled(harness, "app:1", "app:2", "app:3", revisionHistoryLimit=0, updateStrategy=rolling(partition=2))
    assert history(harness) == {1: "app:1", 3: "app:3"}


def test_the_set_s_annotations_are_kept_with_the_revision() -> None:
    harness = ControllerHarness()
    tree = stateful_set()
    tree["metadata"]["annotations"] = {"kubernetes.io/change-cause": "first"}
    harness.settle(stateful_sets, harness.add(tree))
    [revision] = harness.all(ControllerRevision)
    assert revision.annotations["kubernetes.io/change-cause"] == "first"


def test_a_name_that_something_else_has_is_not_used() -> None:
    elsewhere = ControllerHarness()
    elsewhere.settle(stateful_sets, elsewhere.add(stateful_set()))
    [taken] = elsewhere.names(ControllerRevision)
    harness = ControllerHarness()
    harness.add(
        {
            "apiVersion": "apps/v1",
            "kind": "ControllerRevision",
            "metadata": {"name": taken, "labels": {"other": "thing"}},
            "data": {"other": "thing"},
            "revision": 7,
        }
    )
    web = harness.add(stateful_set())
    harness.settle(stateful_sets, web)
    assert harness.status(web)["collisionCount"] == 1
    assert harness.status(web)["updateRevision"] != taken
    assert harness.status(web)["readyReplicas"] == 3
    assert len(harness.names(ControllerRevision)) == 2


def test_the_revision_of_a_former_set_is_not_relied_on() -> None:
    harness = ControllerHarness()
    former = rolled(harness, "app:1")
    old = harness.status(former)["updateRevision"]
    harness.delete(former)
    web = harness.add(stateful_set())
    harness.step(stateful_sets, web)
    assert harness.status(web)["updateRevision"] != old
    harness.settle(stateful_sets, web)
    assert old not in harness.names(ControllerRevision), "it went with its set"
    assert harness.status(web)["readyReplicas"] == 3


def test_the_revision_is_made_once_whatever_is_lost_after_it() -> None:
    harness = ControllerHarness()
    web = harness.add(stateful_set())
    [name] = created(harness.step(stateful_sets, web, crash_after=1), "ControllerRevision")
    harness.settle(stateful_sets, web)
    assert harness.names(ControllerRevision) == [name]


def test_revisions_without_an_owner_are_adopted() -> None:
    harness = ControllerHarness()
    web = rolled(harness, "app:1", "app:2")
    for revision in harness.all(ControllerRevision):
        harness.change(revision, lambda tree: tree["metadata"].pop("ownerReferences"))
    harness.settle(stateful_sets, web)
    assert all(revision.owned_by(web) for revision in harness.all(ControllerRevision))
    assert history(harness) == {1: "app:1", 2: "app:2"}


@pytest.mark.parametrize("data", [None, {}, {"spec": None}, {"spec": {"template": "x"}}, "x"])
def test_a_revision_edited_into_nonsense_is_named_in_what_is_waited_for(data: object) -> None:
    harness = ControllerHarness()
    web = rolled(harness, "app:1", "app:2", updateStrategy=rolling(partition=3))
    current = harness.status(web)["currentRevision"]
    broken = harness.get(ControllerRevision, current)
    assert broken is not None
    harness.change(broken, lambda tree: tree.update(data=data))
    harness.remove(harness.pod("web-0"))
    intents = harness.step(stateful_sets, web)
    assert (created(intents), reasons(intents)) == ([], ["RevisionUnreadable"])
    assert current in intents[-1].because
