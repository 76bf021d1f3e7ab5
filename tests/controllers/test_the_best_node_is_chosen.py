"""Of the nodes that a pod can run on, it gets the one that it, and those beside it, would rather have."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.kit.scheduling_objects import node, pod, seen

from pilothouse.api.objects import Tree
from pilothouse.controllers.scheduling.scheduler import scheduling
from pilothouse.runtime.intents import Bind

DB = {"app": "db"}
TERM = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": DB}}
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def chosen(*trees: Tree) -> str | None:
    bind = next((one for one in seen(scheduling, *trees) if isinstance(one, Bind)), None)
    return None if bind is None else bind.node


def likes(kind: str) -> Tree:
    return {"affinity": {kind: {PREFERRED: [{"weight": 50, "podAffinityTerm": TERM}]}}}


SSD = {
    "affinity": {
        "nodeAffinity": {
            PREFERRED: [
                {"weight": 5, "preference": {"matchExpressions": [{"key": "ssd", "operator": "Exists"}]}}
            ]
        }
    }
}
WEAK_TAINT: Tree = {"taints": [{"key": "old", "effect": "PreferNoSchedule"}]}


@pytest.mark.parametrize(
    ("asked", "there", "best"),
    [
        pytest.param({}, [node("n1"), node("n2"), pod("a", cpu="2", on="n1")], "n2", id="the emptier"),
        pytest.param({}, [node("n1"), node("n2"), pod("a", on="n1")], "n2", id="pods that ask for nothing"),
        pytest.param(SSD, [node("n1"), node("n2", labels={"ssd": ""})], "n2", id="what it prefers"),
        pytest.param({}, [node("n1", **WEAK_TAINT), node("n2")], "n2", id="where it is not minded"),
        pytest.param(
            likes("podAffinity"), [node("n1"), node("n2"), pod("a", labels=DB, on="n2")], "n2", id="near"
        ),
        pytest.param(
            likes("podAntiAffinity"), [node("n1"), node("n2"), pod("a", labels=DB, on="n1")], "n2", id="apart"
        ),
        pytest.param(
            {"labels": DB},
            [node("n1"), node("n2"), pod("a", on="n1", **likes("podAntiAffinity"))],
            "n2",
            id="where others don't mind it",
        ),
        pytest.param(
            {"owner": "web"},
            [node("n1"), node("n2"), pod("a", owner="web", on="n1"), pod("b", cpu="1", on="n2")],
            "n2",
            id="away from its set",
        ),
    ],
)
def test_the_best_is_chosen(asked: Tree, there: list[Tree], best: str) -> None:
    assert chosen(pod("p", **asked), *there) == best


@settings(deadline=None, max_examples=60)
@given(
    sizes=st.lists(st.integers(1, 4), min_size=1, max_size=12),
    rooms=st.lists(st.integers(1, 6), min_size=1, max_size=4),
)
def test_no_node_is_given_more_than_it_has(sizes: list[int], rooms: list[int]) -> None:
    nodes = [node(f"n{number}", cpu=str(room)) for number, room in enumerate(rooms)]
    bound: list[Tree] = []
    used: Counter[str] = Counter()
    for number, size in enumerate(sizes):
        where = chosen(pod(f"p{number}", cpu=str(size)), *nodes, *bound)
        free = {
            one["metadata"]["name"]: room - used[one["metadata"]["name"]]
            for one, room in zip(nodes, rooms, strict=True)
        }
        if where is None:
            assert max(free.values()) < size
        else:
            assert free[where] >= size
            used[where] += size
            bound.append(pod(f"p{number}", cpu=str(size), on=where))


def test_the_pods_of_a_set_go_to_a_node_each() -> None:
    nodes = [node(f"n{number}") for number in range(3)]
    bound: list[Tree] = []
    for number in range(3):
        where = chosen(pod(f"web-{number}", owner="web"), *nodes, *bound)
        assert where is not None
        bound.append(pod(f"web-{number}", owner="web", on=where))
    assert {one["spec"]["nodeName"] for one in bound} == {"n0", "n1", "n2"}
