"""What watchers saw, held against itself and against what clients were told. No I/O but in `follow`.

problems = disorder(seen) + untold(seen, record.operations) + wrong_lists(seen, record.lists, …)
"""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import aiohttp
from tests.apiserver.instances.pairs import CONFIG_MAPS
from tests.apiserver.instances.traffic import Listed
from tests.kit.http import Http, WatchEnded
from tests.kit.linearizability import Operation
from tests.kit.registers import Create, Delete, Done, Exchange, Found, Read, Set, Swap, What


@dataclass(frozen=True)
class Seen:
    """One event."""

    type: str
    name: str
    revision: int
    value: str


async def follow(http: Http, start: int, last: str, seen: list[Seen]) -> None:
    """Watch until an object of this name comes, beginning again where it was whenever the server goes away."""
    position = start
    while not seen or seen[-1].name != last:
        try:
            async with http.watch(CONFIG_MAPS, resourceVersion=position) as watch:
                while not seen or seen[-1].name != last:
                    event = await watch.next(seconds=90)
                    if event.type == "ERROR":
                        raise AssertionError(f"after revision {position}: {event.object}")
                    seen.append(Seen(event.type, event.name, event.version, event.object["data"]["value"]))
                    position = event.version
        except (aiohttp.ClientError, ConnectionError, WatchEnded):
            await asyncio.sleep(0.02)


def disorder(seen: Sequence[Seen]) -> list[str]:
    """Events out of order, repeated, or without what must have come before."""
    problems = []
    there: set[str] = set()
    last = 0
    for event in seen:
        if event.revision <= last:
            problems.append(f"{event} after revision {last}")
        if (event.type == "ADDED") == (event.name in there):
            problems.append(f"{event}: {event.name} was {'there' if event.name in there else 'not there'}")
        (there.discard if event.type == "DELETED" else there.add)(event.name)
        last = event.revision
    return problems


def untold(seen: Sequence[Seen], operations: Mapping[str, Sequence[Operation[What]]]) -> list[str]:
    """Acknowledged writes that were not seen, or not as acknowledged; and what was seen that nobody wrote."""
    problems = []
    told = {(event.name, event.value, event.revision) for event in seen if event.type != "DELETED"}
    asked = set()
    for name, history in operations.items():
        for operation in history:
            what = operation.what
            if isinstance(what, Read | Delete):
                continue
            asked.add((name, what.value))
            if isinstance(what.answer, Done) and (name, what.value, what.answer.revision) not in told:
                problems.append(f"{name}: nobody saw {what}")
    problems += [f"{name}: nobody wrote {value}" for name, value, _ in told if (name, value) not in asked]
    return problems


def backward(operations: Iterable[Operation[What]]) -> list[str]:
    """Writes whose revision is not above that of one which was acknowledged before they were sent."""
    return [
        f"{operation} though revision {floor} was acknowledged before"
        for operation, floor in _floors(operations)
        if (revision := _revision(operation)) is not None and revision <= floor
    ]


def wrong_lists(
    seen: Sequence[Seen], lists: Sequence[Listed], operations: Iterable[Operation[What]]
) -> list[str]:
    """Lists that show anything but what was there at their revision, or are older than what was acknowledged before."""
    states: list[dict[str, Found]] = [{}]
    for event in seen:
        after = dict(states[-1])
        if event.type == "DELETED":
            after.pop(event.name, None)
        else:
            after[event.name] = Found(event.value, event.revision)
        states.append(after)
    revisions = [event.revision for event in seen]
    acknowledged = _acknowledged(operations)
    moments = [moment for moment, _ in acknowledged]
    problems = []
    for listed in lists:
        if listed.content != states[bisect_right(revisions, listed.revision)]:
            problems.append(f"the list at {listed.revision} is not what was there: {listed.content}")
        before = bisect_right(moments, listed.call)
        if before and listed.revision < acknowledged[before - 1][1]:
            problems.append(f"the list at {listed.revision} lacks revision {acknowledged[before - 1][1]}")
    return problems


def _revision(operation: Operation[What]) -> int | None:
    what = operation.what
    if isinstance(what, Create | Set | Swap | Exchange) and isinstance(what.answer, Done):
        return what.answer.revision
    return None


def _acknowledged(operations: Iterable[Operation[What]]) -> list[tuple[float, int]]:
    """By moment of answer, the highest revision acknowledged until then."""
    found: list[tuple[float, int]] = []
    highest = 0
    for operation in sorted(operations, key=lambda operation: operation.back):
        if (revision := _revision(operation)) is not None:
            highest = max(highest, revision)
            found.append((operation.back, highest))
    return found


def _floors(operations: Iterable[Operation[What]]) -> list[tuple[Operation[What], int]]:
    """Each operation, and the highest revision acknowledged before it was sent."""
    everything = list(operations)
    acknowledged = _acknowledged(everything)
    moments = [moment for moment, _ in acknowledged]
    floors = []
    for operation in everything:
        # One that returned at this very moment returned before this one was sent, if only just: not counted.
        before = bisect_right(moments, operation.call)
        floors.append((operation, acknowledged[before - 1][1] if before else 0))
    return floors
