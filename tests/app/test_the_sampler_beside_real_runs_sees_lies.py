from __future__ import annotations

from tests.kit.status_sampler import LAG, Samples

from pilothouse.api.applications.elasticsearch_application import ELASTICSEARCH
from pilothouse.api.kind_names import ElasticsearchCluster
from pilothouse.api.objects import Object


def cluster(available: str) -> Object:
    return Object.of(
        {
            "apiVersion": ElasticsearchCluster.api_version,
            "kind": ElasticsearchCluster.kind,
            "metadata": {"name": "demo", "namespace": "db"},
            "status": {"conditions": [{"type": "Available", "status": available}]},
        }
    )


def pod(ready: str, of: str = "demo") -> Object:
    return Object.of(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": "p",
                "namespace": "db",
                "labels": {ELASTICSEARCH.cluster_label: of},
            },
            "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": ready}]},
        }
    )


def test_available_without_a_ready_pod_is_seen_once_it_stays() -> None:
    samples = Samples()
    for moment in (0.0, LAG / 2, LAG):
        samples.see(moment, [cluster("True")], [pod("False"), pod("True", of="another")])
    assert not samples.violations
    samples.see(LAG + 1, [cluster("True")], [pod("False")])
    assert len(samples.violations) == 1
    assert "db/demo says" in samples.violations[0]


def test_what_is_true_in_between_begins_anew() -> None:
    samples = Samples()
    samples.see(0, [cluster("True")], [pod("False")])
    samples.see(LAG, [cluster("True")], [pod("True")])
    samples.see(LAG + 1, [cluster("True")], [])
    samples.see(LAG + 2, [cluster("Unknown")], [])
    samples.see(2 * LAG + 3, [cluster("True")], [])
    assert not samples.violations
