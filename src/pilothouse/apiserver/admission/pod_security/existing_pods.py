"""Which existing pods of a namespace a stricter policy would refuse.

Such pods stay; the user who changes the policy is warned, also in a dry run. Evaluation takes at most a
second and yields to other requests.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from pilothouse.api.pod_security.evaluation import evaluate
from pilothouse.api.pod_security.policy import LevelVersion
from pilothouse.apiserver.storage import codec
from pilothouse.apiserver.storage.items import Item
from pilothouse.base.clock import Clock

MOST_PODS: Final = 3000
SECONDS: Final = 1.0
_STRETCH: Final = 50
"""Pods between two turns of the others: some milliseconds."""


class _Owner(msgspec.Struct):
    uid: str = ""
    controller: bool | None = None


class _Metadata(msgspec.Struct, rename="camel"):
    owner_references: list[_Owner] | None = None


class _Spec(msgspec.Struct, rename="camel"):
    runtime_class_name: str | None = None


class _Pod(msgspec.Struct):
    """The fields of a pod that determine the order of evaluation."""

    metadata: _Metadata
    spec: _Spec

    @property
    def controller(self) -> str:
        owners = self.metadata.owner_references or ()
        return next((owner.uid for owner in owners if owner.controller), "")


_read_pod: Final = msgspec.json.Decoder(_Pod).decode


async def existing_violations(
    items: Sequence[Item], namespace: str, enforce: LevelVersion, exempt: frozenset[str], clock: Clock
) -> list[str]:
    """The warnings about a namespace's pods. ``exempt`` are runtime classes that are not evaluated."""
    deadline = clock.monotonic() + SECONDS
    ordered = await _ordered(items, exempt)
    found: dict[str, list[str]] = {}
    checked = 0
    for item in ordered[:MOST_PODS]:
        pod = codec.decode(item.value)
        evaluation = evaluate(enforce, pod["metadata"], pod["spec"])
        if not evaluation.allowed:
            found.setdefault(evaluation.reason, []).append(item.name)
        checked += 1
        if clock.monotonic() > deadline:
            break
        if checked % _STRETCH == 0:
            await asyncio.sleep(0)
    return list(_warnings(found, namespace, enforce, checked, len(ordered)))


async def _ordered(items: Sequence[Item], exempt: frozenset[str]) -> list[Item]:
    """One pod of each controller first: the others are most likely the same."""
    first: list[Item] = []
    others: list[Item] = []
    seen: set[str] = set()
    for number, item in enumerate(items, 1):
        pod = _read_pod(item.value)
        if number % (10 * _STRETCH) == 0:
            await asyncio.sleep(0)
        if pod.spec.runtime_class_name in exempt:
            continue
        controller = pod.controller
        if controller and controller in seen:
            others.append(item)
        else:
            seen.add(controller)
            first.append(item)
    return first + others


def _warnings(
    found: dict[str, list[str]], namespace: str, enforce: LevelVersion, checked: int, total: int
) -> Iterator[str]:
    if checked < total:
        first = f"the first {checked} of {total} existing pods"
        yield f"new PodSecurity enforce level only checked against {first}"
    if found:
        level = f'the new PodSecurity enforce level "{enforce}"'
        yield f'existing pods in namespace "{namespace}" violate {level}'
    yield from sorted(f"{_counted(names)}: {reason}" for reason, names in found.items())


def _counted(names: list[str]) -> str:
    others = len(names) - 1
    if not others:
        return names[0]
    return f"{min(names)} (and {others} other {'pod' if others == 1 else 'pods'})"
