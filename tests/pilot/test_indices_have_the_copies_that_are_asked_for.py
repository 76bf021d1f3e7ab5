"""The leading pilot sets the copies of indices: as many as there are nodes for, and never fewer while some are missing."""

from __future__ import annotations

from typing import Any

import pytest

from pilothouse.api.kind_names import Pilot
from pilothouse.api.objects import Object, Tree
from pilothouse.pilot.drivers.elasticsearch.cluster_state import ClusterState
from pilothouse.pilot.drivers.elasticsearch.redundancy import (
    DataNodes,
    SetCopies,
    copies_by_index,
    copies_decision,
    data_nodes,
)

THREE = DataNodes(present=3, staying=3)


def decided(
    asked: Tree,
    indices: dict[str, int],
    nodes: DataNodes = THREE,
    health: str = "Green",
    *,
    settled: bool = True,
) -> tuple[tuple[SetCopies, ...], Tree]:
    decision = copies_decision(asked, indices, nodes, health, settled=settled)
    return decision.acts, decision.facts


def test_each_index_gets_the_copies() -> None:
    acts, facts = decided({"copies": 2}, {"a": 1, "b": 2, "c": 0, ".kibana": 0})
    assert acts == (SetCopies(("a", "c"), 2),)
    assert (facts["matching"], facts["kept"]) == (3, False)


def test_they_are_kept_when_all_have_them_and_the_cluster_is_green() -> None:
    acts, facts = decided({"copies": 1}, {"a": 1, "b": 1})
    assert acts == ()
    assert facts == {
        "copies": 1,
        "indices": [],
        "matching": 2,
        "kept": True,
        "message": "2 indices have 1 copy each.",
    }
    _, facts = decided({"copies": 1}, {"a": 1}, health="Yellow")
    assert (facts["kept"], facts["message"]) == (
        False,
        "Copies are being built: the cluster's health is Yellow.",
    )
    assert decided({"copies": 1}, {})[1]["kept"]


def test_patterns_choose_the_indices() -> None:
    indices = {"logs-1": 0, "logs-2": 0, "books": 0, ".hidden": 0, "l[x]": 0}
    assert decided({"copies": 1, "indices": ["logs-*"]}, indices)[0] == (SetCopies(("logs-1", "logs-2"), 1),)
    assert decided({"copies": 1, "indices": [".h*", "l[x]"]}, indices)[0] == (
        SetCopies((".hidden", "l[x]"), 1),
    )


def test_never_more_than_data_nodes_less_one() -> None:
    two = DataNodes(present=2, staying=3)
    acts, facts = decided({"copies": 2}, {"a": 0}, two)
    assert acts == (SetCopies(("a",), 1),)
    acts, facts = decided({"copies": 2}, {"a": 1}, two)
    assert acts == ()
    assert facts["message"] == "2 copies of a shard need 3 data nodes, and there are 2; 1 more is to join."
    assert decided({"copies": 2}, {"a": 0}, DataNodes(present=1, staying=1))[0] == ()


@pytest.mark.parametrize("health", ["Yellow", "Red", ""])
def test_never_fewer_while_a_copy_is_missing(health: str) -> None:
    acts, facts = decided({"copies": 1}, {"a": 2}, health=health)
    assert acts == ()
    assert facts["message"] == (
        "1 index has more copies than asked for; they are removed when the cluster is Green."
    )
    assert decided({"copies": 1}, {"a": 2})[0] == (SetCopies(("a",), 1),)


def test_copies_that_no_node_can_hold_go_when_nothing_moves() -> None:
    two = DataNodes(present=2, staying=2)
    # A third node has left: the second copy can't be anywhere.
    assert decided({"copies": 2}, {"a": 2}, two, "Yellow")[0] == (SetCopies(("a",), 1),)
    assert decided({"copies": 2}, {"a": 2}, two, "Yellow", settled=False)[0] == ()
    assert decided({"copies": 2}, {"a": 2}, two, "Red")[0] == ()
    # No copy that is there is removed with them.
    assert decided({"copies": 0}, {"a": 2}, two, "Yellow")[0] == (SetCopies(("a",), 1),)


def test_a_node_that_is_to_go_does_not_count() -> None:
    def pilot(name: str, *roles: str, **spec: Any) -> Object:
        meta = {"name": name, "namespace": "default"}
        return Object(Pilot, {"metadata": meta, "spec": {"elasticsearch": {"roles": list(roles)}, **spec}})

    pilots = [
        pilot("a", "data"),
        pilot("b", "data", decommission=True),
        pilot("c", "master"),
        pilot("d", "data"),
    ]
    state = ClusterState(names={"1": "a", "2": "b", "3": "c"})
    assert data_nodes(pilots, state) == DataNodes(present=1, staying=2)


def test_many_indices_are_named_in_several_requests() -> None:
    acts, _ = decided({"copies": 1}, {f"an-index-with-a-long-name-{number:04}": 0 for number in range(300)})
    assert len(acts) > 3
    assert all(len(",".join(each.indices)) <= 2000 for each in acts)
    assert sum(len(each.indices) for each in acts) == 300


def test_indices_that_choose_for_themselves_are_left_alone() -> None:
    answer = {
        "a": {"settings": {"index.number_of_replicas": "1"}},
        "b": {"settings": {"index.number_of_replicas": "1", "index.auto_expand_replicas": "0-all"}},
        "c": {"settings": {"index.number_of_replicas": "0", "index.auto_expand_replicas": "false"}},
    }
    assert copies_by_index(answer) == {"a": 1, "c": 0}
