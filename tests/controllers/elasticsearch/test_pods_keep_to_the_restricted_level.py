"""Pods of a cluster keep to `restricted`. A cluster from before gets that with its next version, not by a restart."""

from __future__ import annotations

from typing import Any

import pytest
from tests.kit.elasticsearch_harness import ElasticsearchHarness, elastic, pool, writes
from tests.kit.elasticsearch_upgrade import NEW, OLD, images, the_set, three_nodes

from pilothouse.api.kind_names import Pod
from pilothouse.api.navigator.labels import TEMPLATE
from pilothouse.api.objects import Object, Tree
from pilothouse.api.pod_security.evaluation import evaluate
from pilothouse.api.pod_security.policy import RESTRICTED, LevelVersion
from pilothouse.controllers.elasticsearch.desired.pool_stateful_set import template_hash

AS_SOMEBODY: dict[str, Any] = {"securityContext": {"runAsUser": 1000}}
PILOT = {"pilotImage": {"repository": "pilothouse", "tag": "1"}}


def complaint(pod: Object) -> str:
    return evaluate(LevelVersion(RESTRICTED), pod.thawed()["metadata"], pod.thawed()["spec"]).detail


@pytest.mark.parametrize("more", [{}, PILOT], ids=["plain", "with a pilot from an image"])
def test_a_new_cluster_fits_a_restricted_namespace(more: dict[str, Any]) -> None:
    harness = ElasticsearchHarness()
    test = harness.add(elastic("test", pools=[pool("mixed", 1, "data", "master")], **AS_SOMEBODY, **more))
    harness.run_until_idle(test)
    assert complaint(harness.of(Pod, "es-test-mixed-0")) == ""


def test_who_runs_it_has_to_be_said_for_that() -> None:
    harness = ElasticsearchHarness()
    test = harness.add(elastic("test", pools=[pool("mixed", 1, "data", "master")]))
    harness.run_until_idle(test)
    assert complaint(harness.of(Pod, "es-test-mixed-0")) == (
        'runAsNonRoot != true (pod or container "elasticsearch" must set securityContext.runAsNonRoot=true)'
    )


def unrestricted(tree: Tree) -> Tree:
    """A template as it was made before, with the hash that it had."""
    spec, labels = tree["spec"], tree["metadata"]["labels"]
    spec.pop("securityContext")
    for container in spec["containers"]:
        container.pop("securityContext")
    tree["metadata"]["annotations"][TEMPLATE] = template_hash(
        {"labels": labels, "spec": spec, "version": OLD}
    )
    return tree


def test_a_cluster_from_before_is_restarted_only_when_its_version_changes() -> None:
    harness, test = three_nodes()
    stateful_set = the_set(harness)
    old = unrestricted(stateful_set.thawed()["spec"]["template"])
    harness.change(stateful_set, lambda tree: tree["spec"].update(template=old))
    hashed = {TEMPLATE: old["metadata"]["annotations"][TEMPLATE]}
    for ordinal in range(3):
        pod = harness.of(Pod, f"es-test-data-{ordinal}")
        harness.change(pod, lambda tree: tree["metadata"]["annotations"].update(hashed))
    assert writes(harness.decide_cluster(test), "StatefulSet") == []
    assert writes(harness.decide_cluster(test), "Pod") == []
    harness.edit(test, version=NEW)
    harness.run_until_idle(test)
    assert images(harness) == [NEW] * 3
    assert "seccompProfile" in the_set(harness).at("spec", "template", "spec", "securityContext")
    assert writes(harness.decide_cluster(test), "StatefulSet") == []
