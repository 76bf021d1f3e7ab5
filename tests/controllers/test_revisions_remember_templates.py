"""The history of a set: what ``kubectl rollout history`` and ``undo`` work with."""

from __future__ import annotations

import pytest
from tests.kit.controller_harness import ControllerHarness, made, reasons
from tests.kit.workloads import pod_template, rolling, stateful_set

from pilothouse.api.kind_names import ControllerRevision
from pilothouse.api.objects import Object
from pilothouse.controllers.stateful_sets.stateful_set_controller import stateful_sets


def history(yard: ControllerHarness) -> dict[int, str]:
    """The image of each revision."""
    return {
        revision["revision"]: revision["data"]["spec"]["template"]["spec"]["containers"][0]["image"]
        for revision in sorted(yard.all(ControllerRevision), key=lambda one: one["revision"])
    }


def rolled(yard: ControllerHarness, *images: str, **spec: object) -> Object:
    web = yard.add(stateful_set(image=images[0], **spec))
    yard.settle(stateful_sets, web)
    for image in images[1:]:
        yard.edit(web, template=pod_template(image))
        yard.settle(stateful_sets, web)
    return web


def test_each_template_is_a_revision_that_the_set_owns() -> None:
    yard = ControllerHarness()
    web = rolled(yard, "app:1", "app:2")
    assert history(yard) == {1: "app:1", 2: "app:2"}
    latest = next(one for one in yard.all(ControllerRevision) if one["revision"] == 2)
    assert latest.owned_by(web)
    assert latest.name == yard.status(web)["updateRevision"]
    assert latest.labels["app"] == "web"
    assert latest.name.endswith(latest.labels["controller.kubernetes.io/hash"])
    assert latest["data"]["spec"]["template"]["$patch"] == "replace"
    assert yard.pod("web-0").labels["controller-revision-hash"] == latest.name


def test_a_template_that_comes_back_is_its_old_revision_with_a_new_number() -> None:
    yard = ControllerHarness()
    web = rolled(yard, "app:1", "app:2")
    first = next(one.name for one in yard.all(ControllerRevision) if one["revision"] == 1)
    yard.edit(web, template=pod_template("app:1"))
    yard.settle(stateful_sets, web)
    assert history(yard) == {2: "app:2", 3: "app:1"}
    assert yard.status(web)["currentRevision"] == first


def test_the_history_ends_at_its_limit() -> None:
    yard = ControllerHarness()
    rolled(yard, "app:1", "app:2", "app:3", "app:4", revisionHistoryLimit=1)
    assert history(yard) == {3: "app:3", 4: "app:4"}


def test_a_revision_that_pods_are_made_from_is_not_history() -> None:
    yard = ControllerHarness()
    rolled(yard, "app:1", "app:2", "app:3", revisionHistoryLimit=0, updateStrategy=rolling(partition=2))
    assert history(yard) == {1: "app:1", 3: "app:3"}


def test_the_set_s_annotations_are_kept_with_the_revision() -> None:
    yard = ControllerHarness()
    tree = stateful_set()
    tree["metadata"]["annotations"] = {"kubernetes.io/change-cause": "first"}
    yard.settle(stateful_sets, yard.add(tree))
    [revision] = yard.all(ControllerRevision)
    assert revision.annotations["kubernetes.io/change-cause"] == "first"


def test_a_name_that_something_else_has_is_not_used() -> None:
    elsewhere = ControllerHarness()
    elsewhere.settle(stateful_sets, elsewhere.add(stateful_set()))
    [taken] = elsewhere.names(ControllerRevision)
    yard = ControllerHarness()
    yard.add(
        {
            "apiVersion": "apps/v1",
            "kind": "ControllerRevision",
            "metadata": {"name": taken, "labels": {"other": "thing"}},
            "data": {"other": "thing"},
            "revision": 7,
        }
    )
    web = yard.add(stateful_set())
    yard.settle(stateful_sets, web)
    assert yard.status(web)["collisionCount"] == 1
    assert yard.status(web)["updateRevision"] != taken
    assert yard.status(web)["readyReplicas"] == 3
    assert len(yard.names(ControllerRevision)) == 2


def test_the_revision_of_a_former_set_is_not_relied_on() -> None:
    yard = ControllerHarness()
    former = rolled(yard, "app:1")
    old = yard.status(former)["updateRevision"]
    yard.delete(former)
    web = yard.add(stateful_set())
    yard.step(stateful_sets, web)
    assert yard.status(web)["updateRevision"] != old
    yard.settle(stateful_sets, web)
    assert old not in yard.names(ControllerRevision), "it went with its set"
    assert yard.status(web)["readyReplicas"] == 3


def test_the_revision_is_made_once_whatever_is_lost_after_it() -> None:
    yard = ControllerHarness()
    web = yard.add(stateful_set())
    [name] = made(yard.step(stateful_sets, web, crash_after=1), "ControllerRevision")
    yard.settle(stateful_sets, web)
    assert yard.names(ControllerRevision) == [name]


def test_revisions_without_an_owner_are_adopted() -> None:
    yard = ControllerHarness()
    web = rolled(yard, "app:1", "app:2")
    for revision in yard.all(ControllerRevision):
        yard.change(revision, lambda tree: tree["metadata"].pop("ownerReferences"))
    yard.settle(stateful_sets, web)
    assert all(revision.owned_by(web) for revision in yard.all(ControllerRevision))
    assert history(yard) == {1: "app:1", 2: "app:2"}


@pytest.mark.parametrize("data", [None, {}, {"spec": None}, {"spec": {"template": "x"}}, "x"])
def test_a_revision_edited_into_nonsense_is_named_in_what_is_waited_for(data: object) -> None:
    yard = ControllerHarness()
    web = rolled(yard, "app:1", "app:2", updateStrategy=rolling(partition=3))
    current = yard.status(web)["currentRevision"]
    broken = yard.get(ControllerRevision, current)
    assert broken is not None
    yard.change(broken, lambda tree: tree.update(data=data))
    yard.remove(yard.pod("web-0"))
    intents = yard.step(stateful_sets, web)
    assert (made(intents), reasons(intents)) == ([], ["RevisionUnreadable"])
    assert current in intents[-1].because
