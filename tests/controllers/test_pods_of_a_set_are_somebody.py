"""What makes a pod of a set this pod: name, labels, network name, storage; and which pods are the set's at all."""

from __future__ import annotations

from typing import Any

import pytest
from tests.kit.controller_harness import ControllerHarness, Refused, created, reasons
from tests.kit.workloads import pod_template, stateful_set

from pilothouse.api.kind_names import PersistentVolumeClaim, Pod
from pilothouse.api.objects import Object
from pilothouse.controllers.stateful_sets.stateful_set_controller import stateful_sets
from pilothouse.runtime.controller import Names, ReconcileKey
from pilothouse.runtime.intents import PatchObject


def orphan(name: str = "web-1", **metadata: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": "web"}, **metadata},
        "spec": {"containers": [{"name": "app", "image": "app:1"}]},
    }


def asked(mapper: Any, one: Object, harness: ControllerHarness) -> list[ReconcileKey | tuple[str, str]]:
    names: Names = mapper(one, harness.world())
    return list(names)


def test_a_pod_has_its_ordinal_in_name_labels_and_host_name() -> None:
    harness = ControllerHarness()
    web = harness.add(stateful_set(serviceName="peers"))
    harness.settle(stateful_sets, web)
    pod = harness.pod("web-2")
    assert pod.owned_by(web)
    assert pod.labels == {
        "app": "web",
        "apps.kubernetes.io/pod-index": "2",
        "statefulset.kubernetes.io/pod-name": "web-2",
        "controller-revision-hash": harness.status(web)["updateRevision"],
    }
    assert (pod.spec["hostname"], pod.spec["subdomain"]) == ("web-2", "peers")
    assert pod.spec["containers"] == web.spec["template"]["spec"]["containers"]


def test_the_template_s_annotations_and_finalizers_are_the_pod_s() -> None:
    harness = ControllerHarness()
    template = pod_template()
    template["metadata"] |= {"annotations": {"a": "b"}, "finalizers": ["x.io/y"], "name": "ignored"}
    harness.step(stateful_sets, harness.add(stateful_set(template=template)))
    pod = harness.pod("web-0")
    assert (pod.annotations, list(pod.finalizers)) == ({"a": "b"}, ["x.io/y"])


def test_a_claim_takes_the_place_of_the_volume_of_its_name() -> None:
    harness = ControllerHarness()
    template = pod_template()
    template["spec"]["volumes"] = [{"name": "data", "emptyDir": {}}, {"name": "tmp", "emptyDir": {}}]
    harness.step(stateful_sets, harness.add(stateful_set(template=template, claims=["data"])))
    assert harness.pod("web-0").spec["volumes"] == [
        {"name": "data", "persistentVolumeClaim": {"claimName": "data-web-0"}},
        {"name": "tmp", "emptyDir": {}},
    ]
    assert harness.names(PersistentVolumeClaim) == ["data-web-0"]


def test_an_orphan_that_fits_is_adopted() -> None:
    harness = ControllerHarness()
    before = harness.add(orphan())
    web = harness.add(stateful_set())
    harness.settle(stateful_sets, web)
    pod = harness.pod("web-1")
    assert pod.owned_by(web)
    assert pod.uid != before.uid, "it was of no revision, so it was made anew in its turn"


def test_an_adopted_pod_that_stays_gets_the_labels_it_lacks() -> None:
    harness = ControllerHarness()
    before = harness.add(orphan("web-0"))
    harness.settle(stateful_sets, harness.add(stateful_set(updateStrategy={"type": "OnDelete"})))
    pod = harness.pod("web-0")
    assert pod.uid == before.uid
    assert pod.labels["statefulset.kubernetes.io/pod-name"] == "web-0"
    assert pod.labels["apps.kubernetes.io/pod-index"] == "0"


def test_an_orphan_that_is_going_is_not_adopted() -> None:
    harness = ControllerHarness()
    harness.delete(harness.add(orphan("web-0")))
    intents = harness.step(stateful_sets, harness.add(stateful_set()))
    assert harness.pod("web-0").controller is None
    assert (created(intents), reasons(intents)) == ([], ["NameTaken"])


def test_an_orphan_is_not_adopted_by_a_set_that_has_gone_meanwhile() -> None:
    harness = ControllerHarness()
    harness.add(orphan())
    web = harness.add(stateful_set())
    intents = harness.decide(stateful_sets, web)
    harness.delete(web)
    [adoption] = [intent for intent in intents if isinstance(intent, PatchObject)]
    with pytest.raises(Refused):
        harness.execute(adoption)
    assert harness.pod("web-1").controller is None


def test_pods_that_do_not_fit_are_let_go() -> None:
    harness = ControllerHarness()
    web = harness.add(stateful_set())
    harness.settle(stateful_sets, web)
    harness.change(harness.pod("web-1"), lambda tree: tree["metadata"]["labels"].update(app="other"))
    harness.step(stateful_sets, web)
    assert harness.pod("web-1").controller is None
    intents = harness.settle(stateful_sets, web)
    assert reasons(intents) == ["NameTaken"]
    assert created(intents) == []
    assert harness.status(web)["replicas"] == 2


def test_somebody_else_s_pod_in_the_place_is_waited_for() -> None:
    harness = ControllerHarness()
    other = {"apiVersion": "x/v1", "kind": "Thing", "name": "t", "uid": "u", "controller": True}
    harness.add(orphan("web-0", ownerReferences=[other]))
    web = harness.add(stateful_set())
    intents = harness.step(stateful_sets, web)
    assert reasons(intents) == ["NameTaken"]
    assert "Thing t" in intents[-1].because
    assert created(intents) == []
    harness.remove(harness.pod("web-0"))
    assert created(harness.step(stateful_sets, web)) == ["web-0"]


def test_a_name_that_only_looks_like_a_member_s_is_none() -> None:
    harness = ControllerHarness()
    for name in ("web-00", "web-x", "web", "web-99999999999", "other-web-0"):
        harness.add(orphan(name))
    harness.settle(stateful_sets, harness.add(stateful_set(replicas=1)))
    strangers = [pod.name for pod in harness.all(Pod) if pod.controller is None]
    assert strangers == ["other-web-0", "web", "web-00", "web-99999999999", "web-x"]


def test_an_adopted_pod_without_the_set_s_claims_is_waited_for() -> None:
    harness = ControllerHarness()
    pod = harness.add(orphan("web-0"))
    web = harness.add(stateful_set(claims=["data"]))
    harness.set_ready(pod, True)
    intents = harness.step(stateful_sets, web)
    assert reasons(intents) == ["StorageDiffers"]
    harness.delete(harness.pod("web-0"))
    assert reasons(harness.settle(stateful_sets, web)) == []


def test_a_pod_s_change_has_the_set_of_its_name_looked_at() -> None:
    harness = ControllerHarness()
    harness.add(stateful_set(claims=["data"]))
    pod_mapper = stateful_sets.also[Pod]
    claim_mapper = stateful_sets.also[PersistentVolumeClaim]
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "data-web-3"},
        "spec": {},
    }
    assert asked(pod_mapper, harness.add(orphan()), harness) == [("default", "web")]
    assert asked(pod_mapper, harness.add(orphan("lonely")), harness) == []
    assert asked(claim_mapper, harness.add(claim), harness) == [("default", "web")]
    claim["metadata"] = {"name": "data-other-3"}
    assert asked(claim_mapper, harness.add(claim), harness) == []
