from __future__ import annotations

import json
from pathlib import Path
from typing import cast

import pytest
from tests.apiserver.metrics.scraped import Scraped
from tests.node.logs.writing import Log, record

from pilothouse.api.objects import Object
from pilothouse.base.clock import ManualClock
from pilothouse.base.rfc3339 import parse_time
from pilothouse.node.containers.container_index import ContainerIndex, InstanceSource
from pilothouse.node.interfaces import RunningContainer
from pilothouse.node.metrics import log_matches
from pilothouse.node.metrics.log_matches import ANNOTATION, LogMatches
from pilothouse.node.metrics.metrics_pages import node_families

RUNNING = cast(RunningContainer, object())
"""Counting asks only whether there is one."""
TEN = parse_time("2026-11-15T10:00:00Z")


def pod(patterns: dict[str, str] | str | None, name: str = "db-0") -> Object:
    text = patterns if isinstance(patterns, str) else json.dumps(patterns)
    annotations = {} if patterns is None else {ANNOTATION: text}
    return Object.of(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": "shop", "uid": name, "annotations": annotations},
        }
    )


class Counting:
    """Pods with logs, and the counters of an agent that began at ten o'clock."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.index = ContainerIndex()
        self.clock = ManualClock(TEN)
        self.warnings: list[tuple[str, str, str]] = []
        self.matches = self.agent()

    def agent(self) -> LogMatches:
        def warn(pod: Object, reason: str, message: str) -> None:
            self.warnings.append((pod.name, reason, message))

        return LogMatches(self.index, warn, self.clock)

    def start(self, pod: Object, container: str = "main", attempt: int = 0) -> Log:
        folder = self._folder / pod.uid / container / str(attempt)
        folder.mkdir(parents=True)
        before = folder.with_name(str(attempt - 1)) if attempt else None
        self.index.put(pod, container, InstanceSource(folder, RUNNING, before))
        return Log(folder / "log")

    async def look(self) -> Scraped:
        await self.matches.look()
        self.clock.advance(5)
        page = [*node_families("n1", 1, 1), *self.matches.families()]
        return Scraped.read("".join(page).encode())


@pytest.fixture
def counting(tmp_path: Path) -> Counting:
    return Counting(tmp_path)


async def counted(counting: Counting, name: str = "pilothouse_log_matches_total", **labels: str) -> float:
    return (await counting.look()).value(name, **labels)


async def test_lines_are_counted_as_they_are_written(counting: Counting) -> None:
    log = counting.start(pod({"slow": "duration", "oom": "OutOfMemory"}))
    page = await counting.look()
    assert page.values("pilothouse_log_matches_total") == [0, 0]
    log.append(record("duration: 7", second=7) + record("fine", second=8))
    page = await counting.look()
    assert page.value("pilothouse_log_matches_total", pattern="slow") == 1
    log.append(record("duration: 9", second=9))
    page = await counting.look()
    assert page.value("pilothouse_log_matches_total", pattern="slow") == 2
    assert page.labels("pilothouse_log_matches_total", pattern="oom") == {
        "namespace": "shop",
        "pod": "db-0",
        "container": "main",
        "pattern": "oom",
    }
    assert page.value("pilothouse_log_matches_total", pattern="oom") == 0


async def test_a_rotation_loses_and_repeats_nothing(counting: Counting) -> None:
    log = counting.start(pod({"line": "line"}))
    for count in (3, 5, 7):
        log.write(count)
        await counting.look()
        log.write(1)
        log.rotate()
        log.write(2)
    assert await counted(counting) == log.lines


async def test_output_before_the_agent_is_not_counted_again(counting: Counting) -> None:
    log = counting.start(pod({"line": "line"}))
    log.write(20)
    assert await counted(counting) == 20
    # Another agent, a minute later.
    counting.clock.advance(60)
    counting.matches = counting.agent()
    assert await counted(counting) == 0
    log.write(4)
    assert await counted(counting) == 4


async def test_a_container_that_ended_between_two_looks_is_counted_with_its_successor(
    counting: Counting,
) -> None:
    one = pod({"failed": "failed"})
    await counting.look()
    counting.start(one).append(record("failed", second=6))
    counting.start(one, attempt=1).append(record("failed", second=7))
    assert await counted(counting) == 2


async def test_nothing_is_read_for_pods_that_do_not_ask(counting: Counting) -> None:
    counting.start(pod(None)).write(10)
    page = await counting.look()
    assert page.values("pilothouse_log_matches_total") == []
    assert page.values("pilothouse_log_skipped_bytes_total") == []


async def test_counters_go_with_their_pod(counting: Counting) -> None:
    counting.start(pod({"line": "line"})).write(10)
    assert await counted(counting) == 10
    counting.index.drop("db-0")
    assert (await counting.look()).values("pilothouse_log_matches_total") == []


async def test_an_annotation_may_change(counting: Counting) -> None:
    log = counting.start(pod({"line": "line"}))
    log.write(10)
    assert await counted(counting) == 10
    counting.index.update(pod({"line": "line", "five": "line 15"}))
    log.write(10)
    page = await counting.look()
    assert page.value("pilothouse_log_matches_total", pattern="line") == 20
    assert page.value("pilothouse_log_matches_total", pattern="five") == 1


async def test_an_invalid_annotation_is_an_event_and_nothing_else(counting: Counting) -> None:
    log = counting.start(pod("line"))
    log.write(10)
    for _ in range(3):
        assert (await counting.look()).values("pilothouse_log_matches_total") == []
    [(name, reason, message)] = counting.warnings
    assert (name, reason) == ("db-0", "InvalidLogPatterns")
    assert message.startswith(f"annotation {ANNOTATION}: it is not a JSON object")
    counting.index.update(pod({"line": "line"}))
    await counting.look()
    log.write(2)
    assert await counted(counting) == 2


async def test_a_pod_that_writes_without_end_is_skipped_and_others_are_counted(
    counting: Counting, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_matches, "MOST_OF_CONTAINER", 1 << 17)
    monkeypatch.setattr(log_matches, "MOST_OF_ALL", 1 << 18)
    monkeypatch.setattr(log_matches, "MOST_BEHIND", 1 << 20)
    loud, quiet = pod({"line": "line"}, "loud"), pod({"line": "line"}, "quiet")
    flood, other = counting.start(loud), counting.start(quiet)
    await counting.look()
    flood.append(record("line " + "x" * 1000) * 2000)
    other.write(5)
    page = await counting.look()
    size = flood.path.stat().st_size
    assert page.value("pilothouse_log_skipped_bytes_total", pod="loud") == size
    assert page.value("pilothouse_log_matches_total", pod="loud") == 0
    assert page.value("pilothouse_log_matches_total", pod="quiet") == 5
    # What is not too much is read in several passes.
    flood.append(record("line " + "x" * 1000) * 500)
    page = await counting.look()
    assert 0 < page.value("pilothouse_log_matches_total", pod="loud") < 500
    for _ in range(5):
        page = await counting.look()
    assert page.value("pilothouse_log_matches_total", pod="loud") == 500
    assert page.value("pilothouse_log_skipped_bytes_total", pod="loud") == size
