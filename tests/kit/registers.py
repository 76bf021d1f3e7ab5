"""An object of an API server as a register: what each request may answer, given what was there. No I/O.

    state = step(ABSENT, Create("v1", Done(7)))          # State("v1", 7, 7)
    step(state, Read(Found("v1", 7))) == state
    step(state, Swap("v2", expected=5, answer=Done(8)))  # ILLEGAL: it stands at 7, not at 5

Values are never used twice, so a value says which write it came from. Revisions are further evidence: a write's must be
above all earlier ones of the register, and a read must show the one that its value was written at. After a write of
unknown outcome the revision isn't known until a read tells it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from tests.kit.linearizability import ILLEGAL


@dataclass(frozen=True)
class State:
    """What is there: no value if nothing is, no revision if that isn't known; and what all later revisions are above."""

    value: str | None
    revision: int | None
    floor: int


ABSENT = State(None, None, 0)


# Answers


@dataclass(frozen=True)
class Found:
    """A read's: the object."""

    value: str
    revision: int


@dataclass(frozen=True)
class Done:
    """A write's: carried out. Kubernetes does not say at which revision an object went."""

    revision: int | None = None


@dataclass(frozen=True)
class Missing:
    """There is no such object (404)."""


@dataclass(frozen=True)
class Refused:
    """It is not as the request wants it: there already, at another revision, of another value (409, 422)."""


@dataclass(frozen=True)
class Unknown:
    """There was no answer, or one that tells nothing."""


Answer = Found | Done | Missing | Refused | Unknown


# Requests


@dataclass(frozen=True)
class Read:
    answer: Answer


@dataclass(frozen=True)
class Create:
    value: str
    answer: Answer


@dataclass(frozen=True)
class Set:
    """A write of a value, whatever was there before."""

    value: str
    answer: Answer


@dataclass(frozen=True)
class Swap:
    """A write of a value in the place of the one of a revision."""

    value: str
    expected: int
    answer: Answer


@dataclass(frozen=True)
class Exchange:
    """A write of a value in the place of a certain one."""

    value: str
    expected: str
    answer: Answer


@dataclass(frozen=True)
class Delete:
    """The end, if it is at a revision (None: at any)."""

    expected: int | None
    answer: Answer


What = Read | Create | Set | Swap | Exchange | Delete


def step(state: State, what: What) -> Any:
    """The state after a request that got this answer; ILLEGAL if it can't have."""
    match what:
        case Read(Found(value, revision)):
            if state.value != value or (state.revision or revision) != revision:
                return ILLEGAL
            return _known(state, revision)
        case Read(Missing()):
            return state if state.value is None else ILLEGAL
        case Create():
            return _write(state, what.value, what.answer, fits=state.value is None, missing=False)
        case Set():
            return _write(state, what.value, what.answer, fits=state.value is not None)
        case Exchange():
            return _write(state, what.value, what.answer, fits=state.value == what.expected)
        case Swap() if state.value is not None and state.revision is None:
            return _swap_unknown(state, what.expected, what.value, what.answer)
        case Swap():
            return _write(state, what.value, what.answer, fits=_stands(state, what.expected))
        case Delete(None, answer):
            return _write(state, None, answer, fits=state.value is not None)
        case Delete(int() as expected, answer) if state.value is not None and state.revision is None:
            return _swap_unknown(state, expected, None, answer)
        case Delete(int() as expected, answer):
            return _write(state, None, answer, fits=_stands(state, expected))
    return ILLEGAL


def _stands(state: State, revision: int) -> bool:
    return state.value is not None and state.revision == revision


def _known(state: State, revision: int) -> Any:
    """The state with its revision, which must be above what was before if it is told for the first time."""
    if state.revision is None and revision <= state.floor:
        return ILLEGAL
    return replace(state, revision=revision, floor=max(state.floor, revision))


def _write(state: State, value: str | None, answer: Answer, *, fits: bool, missing: bool = True) -> Any:
    """A write whose condition holds or not; ``missing``: without an object the answer is Missing, not Refused."""
    match answer:
        case Done(None) | Unknown() if fits:
            return State(value, None, state.floor)
        case Done(int() as revision) if fits and revision > state.floor:
            return State(value, revision, revision)
        case Missing() if missing and state.value is None:
            return state
        case Refused() if not fits and (state.value is not None or not missing):
            return state
    return ILLEGAL


def _swap_unknown(state: State, expected: int, value: str | None, answer: Answer) -> Any:
    """A write against a revision that may be the one that isn't known; a success or an attempt tells that it is."""
    if isinstance(answer, Refused):
        return state
    known = _known(state, expected)
    return ILLEGAL if known is ILLEGAL else _write(known, value, answer, fits=True)
