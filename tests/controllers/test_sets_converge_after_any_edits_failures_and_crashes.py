"""Whatever is edited, fails or is cut short: a set comes to what its spec says, in order, and then writes no more."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import given, note, settings
from hypothesis import strategies as st
from tests.kit.controller_harness import WRITES, ControllerHarness
from tests.kit.workloads import pod_template, rolling, stateful_set

from pilothouse.api.kind_names import ControllerRevision, PersistentVolumeClaim, Pod, StatefulSet
from pilothouse.api.objects import Object
from pilothouse.api.pod_health import available, ended
from pilothouse.controllers.stateful_sets.stateful_set_controller import stateful_sets
from pilothouse.runtime.intents import Create, Delete, Intent

small = st.integers(0, 4)
strategies = st.one_of(
    st.builds(lambda partition: rolling(partition=partition), small),
    st.builds(
        lambda partition, most: rolling(partition=partition, maxUnavailable=most),
        small,
        st.sampled_from([1, 2, "50%"]),
    ),
    st.just({"type": "RollingUpdate"}),
    st.just({"type": "OnDelete"}),
)
retention = st.builds(
    lambda deleted, scaled: {"whenDeleted": deleted, "whenScaled": scaled},
    st.sampled_from(["Retain", "Delete"]),
    st.sampled_from(["Retain", "Delete"]),
)
edits = st.one_of(
    st.builds(lambda count: {"replicas": count}, small),
    st.builds(lambda tag: {"template": pod_template(f"app:{tag}")}, st.integers(1, 3)),
    st.builds(lambda strategy: {"updateStrategy": strategy}, strategies),
    st.builds(lambda start: {"ordinals": {"start": start}}, st.integers(0, 2)),
    st.builds(lambda policy: {"persistentVolumeClaimRetentionPolicy": policy}, retention),
)
happenings = st.one_of(
    st.tuples(st.just("edit"), edits),
    st.tuples(st.just("decide"), st.one_of(st.none(), st.integers(0, 6))),
    st.tuples(st.just("run pods"), st.none()),
    st.tuples(st.just("collect"), st.none()),
    st.tuples(st.sampled_from(["fail", "delete", "lose", "sicken"]), small),
    st.tuples(st.just("pass time"), st.integers(1, 8)),
)
sets = st.fixed_dictionaries(
    {
        "replicas": small,
        "podManagementPolicy": st.sampled_from(["OrderedReady", "Parallel"]),
        "updateStrategy": strategies,
        "minReadySeconds": st.sampled_from([0, 5]),
        "revisionHistoryLimit": st.integers(0, 2),
        "persistentVolumeClaimRetentionPolicy": retention,
    }
)


class Promises:
    """What must hold before each write."""

    def __init__(self, harness: ControllerHarness) -> None:
        self._harness = harness

    def __call__(self, intent: Intent) -> None:
        match intent:
            case Create(object={"kind": "Pod", "metadata": {"name": name}}):
                self._makes(int(name.rpartition("-")[2]))
            case Delete() if intent.seen.kind == "Pod":
                self._deletes(intent.seen)
            case Delete():
                assert intent.seen.kind == "ControllerRevision", "claims are the collector's to delete"
            case _:
                pass

    def _spec(self) -> Any:
        found = self._harness.get(StatefulSet, "web")
        assert found is not None
        return found.spec

    def _wanted(self) -> range:
        start = (self._spec().get("ordinals") or {}).get("start", 0)
        return range(start, start + self._spec()["replicas"])

    def _up(self, ordinal: int) -> bool:
        pod = self._harness.get(Pod, f"web-{ordinal}")
        least = self._spec().get("minReadySeconds", 0)
        return pod is not None and not pod.deleting and available(pod, least, now=self._harness.now)

    def _makes(self, ordinal: int) -> None:
        assert ordinal in self._wanted()
        assert self._harness.get(PersistentVolumeClaim, f"data-web-{ordinal}") is not None
        if self._spec()["podManagementPolicy"] == "OrderedReady":
            assert all(map(self._up, range(self._wanted().start, ordinal))), "a lower pod is not up"

    def _deletes(self, pod: Object) -> None:
        ordinal = int(pod.name.rpartition("-")[2])
        assert not pod.deleting
        if ended(pod):
            return
        rolling = self._spec()["updateStrategy"].get("rollingUpdate") or {}
        others = [one for one in self._wanted() if one != ordinal]
        if ordinal in self._wanted():
            assert self._spec()["updateStrategy"]["type"] == "RollingUpdate"
            assert ordinal >= self._wanted().start + rolling.get("partition", 0)
        if self._spec()["podManagementPolicy"] == "OrderedReady":
            most = self._most(rolling) - 1 if ordinal in self._wanted() else 0
            assert sum(not self._up(one) for one in others) <= most
        elif ordinal in self._wanted():
            if "maxUnavailable" not in rolling:
                assert all(self._up(one) for one in others if one > ordinal), "a higher pod is not up"
            elif self._up(ordinal):
                assert sum(not self._up(one) for one in others) < self._most(rolling)

    def _most(self, rolling: Any) -> int:
        asked = rolling.get("maxUnavailable", 1)
        return max(1, self._spec()["replicas"] // 2) if asked == "50%" else int(asked)


def happen(harness: ControllerHarness, web: Object, what: str, detail: Any) -> None:
    pods = harness.all(Pod)
    chosen = pods[detail % len(pods)] if pods and isinstance(detail, int) else None
    on_pods: dict[str, Callable[[Object], Any]] = {
        "fail": harness.fail,
        "delete": harness.delete,
        "lose": harness.remove,
        "sicken": lambda pod: harness.set_ready(pod, False),
    }
    match what:
        case "edit":
            harness.edit(web, **detail)
        case "decide":
            harness.step(stateful_sets, web, crash_after=detail)
        case "run pods":
            harness.run_pods()
        case "collect":
            harness.collect()
        case "pass time":
            harness.now += detail
        case _ if chosen is not None:
            on_pods[what](chosen)


def check_end(harness: ControllerHarness) -> None:
    web = harness.get(StatefulSet, "web")
    assert web is not None
    spec, status = web.spec, web.status
    start = (spec.get("ordinals") or {}).get("start", 0)
    wanted = range(start, start + spec["replicas"])
    assert harness.names(Pod) == [f"web-{ordinal}" for ordinal in wanted]
    strategy = spec["updateStrategy"]
    partition = (strategy.get("rollingUpdate") or {}).get("partition", 0)
    for ordinal in wanted:
        pod = harness.pod(f"web-{ordinal}")
        assert pod.owned_by(web)
        assert harness.get(PersistentVolumeClaim, f"data-web-{ordinal}") is not None
        if strategy["type"] == "RollingUpdate" and ordinal >= start + partition:
            assert pod.labels["controller-revision-hash"] == status["updateRevision"]
            assert pod.spec["containers"] == spec["template"]["spec"]["containers"]
    assert status["observedGeneration"] == web.generation
    assert (
        status["replicas"]
        == status.get("readyReplicas", 0)
        == status["availableReplicas"]
        == spec["replicas"]
    )
    revisions = harness.all(ControllerRevision)
    images = [one["data"]["spec"]["template"]["spec"]["containers"][0]["image"] for one in revisions]
    assert len(set(images)) == len(images), "a template is recorded once"
    latest = max(revisions, key=lambda one: one["revision"])
    assert latest.name == status["updateRevision"]
    used = {status["currentRevision"], status["updateRevision"]}
    used |= {pod.labels["controller-revision-hash"] for pod in harness.all(Pod)}
    assert len({one.name for one in revisions} - used) <= spec["revisionHistoryLimit"]


@settings(max_examples=200, deadline=None)
@given(spec=sets, story=st.lists(happenings, max_size=40))
def test_any_story_ends_well(spec: dict[str, Any], story: list[tuple[str, Any]]) -> None:
    harness = ControllerHarness()
    web = harness.add(stateful_set(claims=["data"], **spec))
    harness.before_write = Promises(harness)
    for what, detail in story:
        happen(harness, web, what, detail)
    last = harness.settle(stateful_sets, web)
    note(f"{last}")
    assert not any(isinstance(intent, WRITES) for intent in last)
    check_end(harness)


def test_a_crash_after_any_write_of_a_life_s_story_changes_nothing_about_its_end() -> None:
    """Exhaustive: one life, cut short once, at each of its writes."""
    life: list[dict[str, Any]] = [
        {"template": pod_template("app:2")},
        {"replicas": 1},
        {"replicas": 4, "template": pod_template("app:1")},
    ]
    # With so many writes allowed in all, nothing is cut short.
    total = _live(life, cut_at=10_000)
    assert total > 40
    for cut_at in range(total):
        _live(life, cut_at=cut_at)


def _live(life: list[dict[str, Any]], *, cut_at: int) -> int:
    """Live it with one crash before this write; the number of writes before that, or of all."""
    policy = {"whenDeleted": "Delete", "whenScaled": "Delete"}
    harness = ControllerHarness()
    web = harness.add(stateful_set(claims=["data"], persistentVolumeClaimRetentionPolicy=policy))
    written: list[Intent] = []
    promises = Promises(harness)

    def watch(intent: Intent) -> None:
        promises(intent)
        written.append(intent)

    harness.before_write = watch
    for edit in ({}, *life):
        harness.edit(web, **edit)
        while len(written) < cut_at:
            before = len(written)
            intents = harness.step(stateful_sets, web, crash_after=cut_at - len(written))
            moved, collected = harness.run_pods(), harness.collect()
            if len(written) == before and not moved and not collected:
                assert not any(isinstance(intent, WRITES) for intent in intents)
                break
        if len(written) >= cut_at:
            harness.settle(stateful_sets, web)
        check_end(harness)
    return len(written)
