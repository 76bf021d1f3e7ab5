"""Counts lines of containers' logs, for pods that ask for it: ``pilothouse_log_matches_total``.

    matches = LogMatches(agent.container_index, record_event, clock)
    await matches.run()
    matches.families()

A pod asks by the annotation ``pilothouse.io/log-patterns`` (``logs.log_patterns``). Logs are read every five
seconds from where the last pass ended, also across rotations. A container is counted from its beginning, but
one that ran before the agent or the annotation from then on. Counters go with their pods.

A pass reads a bounded number of bytes, of each container and of all together. What a container writes beyond
that is skipped once it is too far behind, and counted as ``pilothouse_log_skipped_bytes_total``.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final

import msgspec

from pilothouse.api.objects import Object
from pilothouse.base.clock import Clock
from pilothouse.base.prometheus_text import counter, labels
from pilothouse.node.containers.container_index import LOG, ContainerIndex
from pilothouse.node.logs.log_patterns import PatternsError, count_matches, parse_patterns
from pilothouse.node.logs.log_reader import LogCursor
from pilothouse.node.logs.log_records import format_timestamp
from pilothouse.node.logs.log_rotation import oldest

ANNOTATION: Final = "pilothouse.io/log-patterns"
PAUSE: Final = 5.0
MOST_OF_CONTAINER: Final = 1 << 20
"""Bytes that a pass reads of one container."""
MOST_OF_ALL: Final = 4 << 20
"""Bytes that a pass reads of all containers."""
MOST_BEHIND: Final = 8 << 20
"""Unread bytes of a container from which on they are skipped."""

_MOMENT: Final = 30
"""Bytes of a time in a record."""
_NEVER: Final = b"9999"

RecordWarning = Callable[[Object, str, str], None]
"""A pod, a reason, a message."""

log = logging.getLogger(__name__)


class _Log(msgspec.Struct):
    """The log of one instance of a container."""

    pod: str
    container: str
    cursor: LogCursor
    ended: bool = False
    done: bool = False
    """Whether it has ended and all is read."""


class _PodCounts(msgspec.Struct):
    namespace: str
    name: str
    text: str
    """The annotation."""
    patterns: Mapping[str, bytes]
    matches: Counter[tuple[str, str]]
    """By container and pattern."""
    skipped: Counter[str]
    """Bytes, by container."""


class LogMatches:
    def __init__(self, container_index: ContainerIndex, warn: RecordWarning, clock: Clock) -> None:
        self._index = container_index
        self._warn = warn
        self._clock = clock
        self._looked = clock.now()
        """When the last pass looked for logs."""
        self._pods: dict[str, _PodCounts] = {}
        self._logs: dict[Path, _Log] = {}

    async def run(self) -> None:
        while True:
            await asyncio.sleep(PAUSE)
            await self.look()

    async def look(self) -> None:
        """Read once what was written since the last time."""
        self._find_pods()
        if self._pods or self._logs:
            self._find_logs()
            await asyncio.to_thread(self._read)
        self._looked = self._clock.now()

    def families(self) -> Iterator[str]:
        matches, skipped = [], []
        for pod in self._pods.values():
            for (container, pattern), count in pod.matches.items():
                whose = labels(namespace=pod.namespace, pod=pod.name, container=container, pattern=pattern)
                matches.append((whose, count))
            for container, size in pod.skipped.items():
                skipped.append((labels(namespace=pod.namespace, pod=pod.name, container=container), size))
        if matches:
            text = "Lines of a container's log that have the text of a pattern."
            yield counter("pilothouse_log_matches_total", text, matches)
            text = "Bytes of a container's log that were not searched, as it writes too fast."
            yield counter("pilothouse_log_skipped_bytes_total", text, skipped)

    def _find_pods(self) -> None:
        known, self._pods = self._pods, {}
        for pod in self._index.pods():
            text = pod.annotations.get(ANNOTATION)
            if text is None:
                continue
            found = known.get(pod.uid)
            if found is None or found.text != text:
                found = self._read_annotation(pod, text, found)
            self._pods[pod.uid] = found

    def _read_annotation(self, pod: Object, text: str, before: _PodCounts | None) -> _PodCounts:
        """Counters of patterns that stay are kept."""
        patterns: Mapping[str, bytes] = {}
        try:
            patterns = parse_patterns(text)
        except PatternsError as problem:
            message = f"annotation {ANNOTATION}: {problem}; no lines are counted"
            self._warn(pod, "InvalidLogPatterns", message)
        matches: Counter[tuple[str, str]] = Counter()
        if before is not None:
            matches.update({key: count for key, count in before.matches.items() if key[1] in patterns})
        return _PodCounts(pod.namespace, pod.name, text, patterns, matches, Counter())

    def _find_logs(self) -> None:
        """Open the logs of instances that began since the last pass, and close those that are gone."""
        found = set()
        for uid, pod in self._pods.items():
            if not pod.patterns:
                continue
            for container, folder, running in self._index.instances(uid):
                found.add(folder)
                pod.skipped.setdefault(container, 0)
                for pattern in pod.patterns:
                    pod.matches.setdefault((container, pattern), 0)
                if folder not in self._logs:
                    self._logs[folder] = self._open(uid, container, folder)
                self._logs[folder].ended = running is None
        for folder in self._logs.keys() - found:
            self._logs.pop(folder).cursor.close()

    def _open(self, uid: str, container: str, folder: Path) -> _Log:
        cursor = LogCursor(folder / LOG)
        if _first_moment(folder / LOG) < format_timestamp(self._looked):
            cursor.skip()
        return _Log(uid, container, cursor)

    def _read(self) -> None:
        left = MOST_OF_ALL
        for folder, each in list(self._logs.items()):
            if each.done:
                continue
            if left <= 0:
                # It is the first one of the next pass.
                break
            self._logs[folder] = self._logs.pop(folder)
            try:
                left -= self._read_one(each, self._pods[each.pod], min(left, MOST_OF_CONTAINER))
            except OSError as problem:
                log.warning("the log of %s can't be counted: %s", folder, problem.strerror)

    def _read_one(self, each: _Log, pod: _PodCounts, most: int) -> int:
        """Read a log, up to about this many bytes; returns how many."""
        behind = each.cursor.unread()
        if behind > MOST_BEHIND:
            pod.skipped[each.container] += behind
            each.cursor.skip()
            return 0
        read = 0
        for block in each.cursor.blocks():
            for pattern, count in count_matches(block, pod.patterns).items():
                pod.matches[each.container, pattern] += count
            read += len(block)
            if read >= most:
                return read
        each.done = each.ended
        return read


def _first_moment(path: Path) -> bytes:
    """The time of the first record that a log has; one that never comes if it has none."""
    file = oldest(path)
    if file is None:
        return _NEVER
    with file:
        return file.read(_MOMENT) or _NEVER
