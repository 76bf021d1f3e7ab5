"""Whether what clients saw could have come from one thing that does one operation at a time. No I/O.

    history = [Operation(call=0.0, back=0.4, what=Write("x")), Operation(call=0.1, back=0.2, what=Read("x"))]
    assert stuck(history, initial=None, step=step) is None

An operation takes effect at one moment between its call and its return. One whose outcome is unknown has not returned
(`back` is NEVER): it takes effect at any moment after its call, or not at all. `step` is the thing itself: from a state
and an operation with the answer that was seen it gives the next state, or ILLEGAL if that answer can't be.

The search is Wing and Gong's with Lowe's memory: put the operations into an order, one by one, each before any that was
called after it had returned; go back where there is no way on; never look twice at the same set of operations done with
the same state. An operation that changes nothing and fits is done at once: whatever works without it works after it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

NEVER: Final = math.inf
ILLEGAL: Final = object()

W = TypeVar("W")

MOST = 2_000_000
"""States to look at before it is given up."""


@dataclass(frozen=True)
class Operation(Generic[W]):
    """What a client asked, with the answer, and the time in between."""

    call: float
    back: float
    what: W


@dataclass(frozen=True)
class Stuck(Generic[W]):
    """There is no order. As far as one came: the state, and the operations of which one had to be next."""

    done: int
    state: Any
    next: tuple[Operation[W], ...]


class Undecided(Exception):
    """The history has too much at once going on to be checked."""


Step = Callable[[Any, W], Any]


def stuck(history: Sequence[Operation[W]], *, initial: Hashable, step: Step[W]) -> Stuck[W] | None:
    """Why there is no order for the operations; None if there is one."""
    operations = sorted(history, key=lambda operation: operation.call)
    returned = sum(1 << i for i, operation in enumerate(operations) if operation.back < NEVER)
    seen: set[tuple[int, Hashable]] = set()
    paths: list[tuple[int, Hashable]] = [(0, initial)]
    best: Stuck[W] | None = None
    while paths:
        done, state = paths.pop()
        while True:
            possible = _possible(operations, done)
            idle = next((i for i in possible if step(state, operations[i].what) == state), None)
            if idle is None:
                break
            done |= 1 << idle
        if done & returned == returned:
            return None
        if (done, state) in seen:
            continue
        seen.add((done, state))
        if len(seen) > MOST:
            raise Undecided(f"{len(operations)} operations, {len(seen)} states looked at")
        count = (done & returned).bit_count()
        if best is None or count > best.done:
            best = Stuck(count, state, tuple(operations[i] for i in possible))
        # The last one is tried first: the one that returned soonest, and those of unknown outcome only in need.
        for i in sorted(possible, key=lambda i: -operations[i].back):
            after = step(state, operations[i].what)
            if after is not ILLEGAL:
                paths.append((done | 1 << i, after))
    return best


def _possible(operations: Sequence[Operation[Any]], done: int) -> list[int]:
    """The operations not done yet that none of the others not done had returned before."""
    found: list[int] = []
    soonest = NEVER
    for i, operation in enumerate(operations):
        if done >> i & 1:
            continue
        if operation.call > soonest:
            break
        found.append(i)
        soonest = min(soonest, operation.back)
    return found
