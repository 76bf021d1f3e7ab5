"""Series are joined to claims, pods and nodes by the table of labels."""

from __future__ import annotations

import numpy as np

from pilothouse.api.objects import Object
from pilothouse.rules.join import ObjectIndex, join
from pilothouse.rules.join_labels import JoinLabels
from pilothouse.rules.samples import Sample


def claim(name: str, namespace: str = "db", volume: str = "", phase: str = "Bound") -> Object:
    return Object.of(
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": name, "namespace": namespace},
            "spec": {"volumeName": volume or f"pv-{name}"},
            "status": {"phase": phase},
        }
    )


def pod(name: str, node: str, *claims: str, namespace: str = "db") -> Object:
    volumes = [{"name": each, "persistentVolumeClaim": {"claimName": each}} for each in claims]
    return Object.of(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": namespace},
            "spec": {"nodeName": node, "volumes": volumes},
        }
    )


CLAIMS = [claim("a"), claim("b"), claim("a", "other", "pv-other")]
PODS = [pod("p", "n1", "a", "b"), pod("q", "n2", "a", namespace="other")]


def joined(*series: dict[str, str], labels: JoinLabels | None = None) -> tuple[list[tuple[int, float]], int]:
    """The number of the object and the value of each joined sample; the values are the series' positions."""
    samples = [Sample(each, float(number), 100.0 + number) for number, each in enumerate(series)]
    index = ObjectIndex.of_claims(CLAIMS, PODS)
    found = join(samples, index, labels) if labels else join(samples, index)
    assert found.times.tolist() == [100 + value for value in found.values.tolist()]
    return list(zip(found.object_of.tolist(), found.values.tolist(), strict=True)), found.unmatched


def test_by_the_volumes_name() -> None:
    assert joined({"volumename": "pv-b", "namespace": "db", "persistentvolumeclaim": "a"}) == ([(1, 0.0)], 0)


def test_a_volume_that_is_not_selected_falls_through_to_no_other_label() -> None:
    assert joined({"volumename": "pv-x", "node": "n1", "namespace": "db", "pod": "p"}) == ([], 0)


def test_by_namespace_and_claim() -> None:
    assert joined({"namespace": "other", "persistentvolumeclaim": "a", "node": "n1"}) == ([(2, 0.0)], 0)


def test_what_prometheus_renamed_comes_first() -> None:
    series = {"namespace": "db", "exported_namespace": "other", "persistentvolumeclaim": "a"}
    assert joined(series) == ([(2, 0.0)], 0)


def test_by_pod_to_every_claim_that_it_mounts() -> None:
    assert joined({"namespace": "db", "pod": "p", "node": "n2"}) == ([(0, 0.0), (1, 0.0)], 0)


def test_by_node_to_every_claim_mounted_there() -> None:
    assert joined({"node": "n2"}, {"node": "n3"}) == ([(2, 0.0)], 0)


def test_a_pod_without_a_namespace_is_no_pod() -> None:
    assert joined({"pod": "p"}) == ([], 1)


def test_series_without_any_label_are_counted() -> None:
    assert joined({}, {"instance": "x"}, {"volumename": ""}, {"volumename": "pv-a"}) == ([(0, 3.0)], 3)


def test_several_series_of_one_object_are_all_kept() -> None:
    found, _ = joined({"volumename": "pv-a", "zone": "x"}, {"volumename": "pv-a", "zone": "y"})
    assert found == [(0, 0.0), (0, 1.0)]
    index = ObjectIndex.of_claims(CLAIMS)
    samples = [Sample({"volumename": name}, 1.0, 0.0) for name in ("pv-a", "pv-b", "pv-a")]
    assert join(samples, index).several(len(index)).tolist() == [0]


def test_a_provider_may_use_other_labels() -> None:
    other = JoinLabels(volume=("pv", "volumename"), namespace=("ns",))
    found = joined(
        {"pv": "pv-b"}, {"ns": "db", "persistentvolumeclaim": "a"}, {"namespace": "db"}, labels=other
    )
    assert found == ([(1, 0.0), (0, 1.0)], 1)


def test_an_unbound_claim_has_no_volume_yet() -> None:
    index = ObjectIndex.of_claims([claim("new", volume="pv-a", phase="Pending"), claim("a")])
    assert join([Sample({"volumename": "pv-a"}, 1.0, 0.0)], index).object_of.tolist() == [1]


def test_nothing_joins_to_nothing() -> None:
    found = join([], ObjectIndex.of_claims([]))
    assert found.values.dtype == np.float64
    assert found.object_of.size == 0


def test_series_that_change_are_looked_at_again() -> None:
    index = ObjectIndex.of_claims(CLAIMS, PODS)
    series = {"namespace": "db", "persistentvolumeclaim": "a"}
    other = {"namespace": "db", "persistentvolumeclaim": "b"}

    def objects(*labels: dict[str, str], by: JoinLabels = JoinLabels()) -> list[int]:
        samples = [Sample(each, 1.0, 2.0) for each in labels]
        return list(join(samples, index, by).object_of.tolist())

    assert objects(series, other) == [0, 1]
    assert objects(other, series) == [1, 0]
    assert objects(series) == [0]
    assert objects(dict(series), dict(other)) == [0, 1]
    assert objects(series, other, by=JoinLabels(claim=("pvc",))) == []


def test_values_are_those_of_the_present_samples() -> None:
    index = ObjectIndex.of_claims(CLAIMS, PODS)
    labels = {"namespace": "db", "persistentvolumeclaim": "a"}
    for value in (1.0, 5.0):
        found = join([Sample(labels, value, value + 1), Sample({"x": "y"}, 9.0, 0.0)], index)
        assert (found.values.tolist(), found.times.tolist()) == ([value], [value + 1])
        assert (found.unmatched, found.series) == (1, 2)
