"""The checker says yes to histories that could be, and no to those that can't: else its yes would be worth nothing."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from tests.apiserver.instances.traffic import Listed
from tests.apiserver.instances.watched import Seen, backward, disorder, untold, wrong_lists
from tests.kit.linearizability import NEVER, Operation, stuck
from tests.kit.registers import (
    ABSENT,
    Create,
    Delete,
    Done,
    Exchange,
    Found,
    Missing,
    Read,
    Refused,
    Set,
    State,
    Swap,
    Unknown,
    What,
    step,
)


def at(call: float, back: float, what: What) -> Operation[What]:
    return Operation(call, back, what)


MADE = at(0, 1, Create("v1", Done(5)))

GOOD = {
    "nothing": [],
    "a write and a read after it": [MADE, at(2, 3, Read(Found("v1", 5)))],
    "a read during a write sees it or not": [
        MADE,
        at(2, 9, Set("v2", Done(7))),
        at(3, 4, Read(Found("v1", 5))),
        at(5, 6, Read(Found("v2", 7))),
    ],
    "of two swaps at once one succeeds": [
        MADE,
        at(2, 5, Swap("v2", 5, Done(6))),
        at(2, 5, Swap("v3", 5, Refused())),
    ],
    "an unknown write that happened late": [
        MADE,
        at(2, NEVER, Set("v2", Unknown())),
        at(3, 4, Read(Found("v1", 5))),
        at(9, 10, Read(Found("v2", 8))),
        at(11, 12, Swap("v3", 8, Done(9))),
    ],
    "an unknown write that never happened": [
        MADE,
        at(2, NEVER, Set("v2", Unknown())),
        at(9, 10, Read(Found("v1", 5))),
    ],
    "an unknown write that is swapped before it is read": [
        MADE,
        at(2, NEVER, Set("v2", Unknown())),
        at(3, 9, Swap("v3", 8, Done(9))),
        at(3, 9, Read(Found("v2", 8))),
    ],
    "a deletion and a new life": [
        MADE,
        at(2, 3, Delete(5, Done())),
        at(4, 5, Read(Missing())),
        at(6, 7, Create("v2", Done(9))),
        at(8, 9, Create("v3", Refused())),
    ],
    "an unknown deletion explains what is missing": [
        MADE,
        at(2, NEVER, Delete(None, Unknown())),
        at(3, 4, Exchange("v2", "v1", Missing())),
    ],
    "a write against another value is refused": [
        MADE,
        at(2, 3, Exchange("v2", "v0", Refused())),
        at(4, 5, Exchange("v3", "v1", Done(6))),
    ],
}

BAD = {
    "a lost write": [MADE, at(2, 3, Set("v2", Done(6))), at(4, 5, Read(Found("v1", 5)))],
    "a read of what was never written": [MADE, at(2, 3, Read(Found("v9", 6)))],
    "a stale absence": [MADE, at(2, 3, Read(Missing()))],
    "new, then old again": [
        MADE,
        at(2, 9, Set("v2", Done(7))),
        at(3, 4, Read(Found("v2", 7))),
        at(5, 6, Read(Found("v1", 5))),
    ],
    "two swaps of one revision succeed": [
        MADE,
        at(2, 5, Swap("v2", 5, Done(6))),
        at(2, 5, Swap("v3", 5, Done(7))),
    ],
    "a refused write that happened": [
        MADE,
        at(2, 3, Swap("v2", 4, Refused())),
        at(4, 5, Read(Found("v2", 6))),
    ],
    "a revision that goes back": [MADE, at(2, 3, Set("v2", Done(4)))],
    "a revision that differs from the write's": [MADE, at(2, 3, Read(Found("v1", 6)))],
    "an unknown write that comes and goes": [
        MADE,
        at(2, NEVER, Set("v2", Unknown())),
        at(3, 4, Read(Found("v2", 8))),
        at(5, 6, Read(Found("v1", 5))),
    ],
    "an unknown write seen before it was called": [
        MADE,
        at(2, 3, Read(Found("v2", 8))),
        at(4, NEVER, Set("v2", Unknown())),
    ],
    "an object that is created twice": [MADE, at(2, 3, Create("v2", Done(6)))],
    "an object that came back by itself": [
        MADE,
        at(2, 3, Delete(None, Done())),
        at(4, 5, Read(Found("v1", 5))),
    ],
    "a conflict where nobody wrote": [MADE, at(2, 3, Swap("v2", 5, Refused()))],
}


@pytest.mark.parametrize("history", GOOD.values(), ids=GOOD)
def test_what_could_be_is_accepted(history: list[Operation[What]]) -> None:
    assert stuck(history, initial=ABSENT, step=step) is None


@pytest.mark.parametrize("history", BAD.values(), ids=BAD)
def test_what_can_not_be_is_found(history: list[Operation[What]]) -> None:
    found = stuck(history, initial=ABSENT, step=step)
    assert found is not None
    assert found.next


def simulated(choice: random.Random, count: int) -> list[Operation[What]]:
    """What clients of a right server see: each operation takes effect at a moment of its own, some answers are lost."""
    state, revision, history = ABSENT, 0, []
    for n in range(count):
        moment = n + choice.random()
        call, back = moment - choice.uniform(0, 6), moment + choice.uniform(0, 6)
        what, state, revision = carried_out(choice, state, revision, f"v{n}")
        if not isinstance(what, Read) and choice.random() < 0.1:
            what, back = replace(what, answer=Unknown()), NEVER
        history.append(Operation(call, back, what))
    return history


def carried_out(choice: random.Random, state: State, revision: int, value: str) -> tuple[What, State, int]:
    """A random request, the right answer, and what is there afterwards."""
    written = State(value, revision + 1, revision + 1)
    gone = State(None, None, revision + 1)
    if state.value is None or state.revision is None:
        if choice.random() < 0.5:
            return Read(Missing()), state, revision
        return Create(value, Done(revision + 1)), written, revision + 1
    match choice.randrange(6):
        case 0:
            return Set(value, Done(revision + 1)), written, revision + 1
        case 1:
            return Swap(value, state.revision, Done(revision + 1)), written, revision + 1
        case 2:
            return Swap(value, state.revision - 1, Refused()), state, revision
        case 3:
            return Delete(state.revision, Done()), gone, revision + 1
        case _:
            return Read(Found(state.value, state.revision)), state, revision


@pytest.mark.parametrize("seed", range(20))
def test_what_a_right_server_does_is_accepted(seed: int) -> None:
    history = simulated(random.Random(seed), 300)
    assert stuck(history, initial=ABSENT, step=step) is None


@pytest.mark.parametrize("seed", range(20))
def test_one_stale_read_among_hundreds_is_found(seed: int) -> None:
    history = simulated(random.Random(seed), 300)
    returned = [each for each in history if each.back < NEVER]
    old = next(each for each in returned if isinstance(each.what, Create | Set) and each.call > 10)
    written = old.what
    assert isinstance(written, Create | Set)
    assert isinstance(written.answer, Done)
    assert written.answer.revision is not None
    later = [each for each in returned if each.call > old.back]
    overwritten = next(
        each
        for each in later
        if isinstance(each.what, Create | Set | Swap) and isinstance(each.what.answer, Done)
    )
    moment = overwritten.back + 20
    read: What = Read(Found(written.value, written.answer.revision))
    stale = Operation(moment, moment + 0.001, read)
    assert stuck([*history, stale], initial=ABSENT, step=step) is not None


SEEN = [
    Seen("ADDED", "a", 5, "v1"),
    Seen("MODIFIED", "a", 7, "v2"),
    Seen("DELETED", "a", 8, "v2"),
    Seen("ADDED", "a", 9, "v3"),
]
WRITES = {
    "a": [
        MADE,
        at(2, 3, Set("v2", Done(7))),
        at(4, 5, Delete(None, Done())),
        at(6, NEVER, Create("v3", Unknown())),
    ]
}


def test_a_good_account_has_no_problems() -> None:
    lists = [Listed(3.5, 4, 7, {"a": Found("v2", 7)}), Listed(6, 7, 8, {}), Listed(0, 1, 4, {})]
    assert disorder(SEEN) == untold(SEEN, WRITES) == backward(WRITES["a"]) == []
    assert wrong_lists(SEEN, lists, WRITES["a"]) == []


@pytest.mark.parametrize(
    "events",
    [
        [SEEN[0], SEEN[0]],
        [SEEN[1], SEEN[0]],
        [SEEN[1]],
        [SEEN[0], SEEN[3]],
        [SEEN[0], SEEN[2], SEEN[1]],
    ],
    ids=["repeated", "out of order", "changed before added", "added twice", "after its end"],
)
def test_an_account_with_gaps_or_repeats_is_found(events: list[Seen]) -> None:
    assert disorder(events)


def test_an_acknowledged_write_that_nobody_saw_is_found() -> None:
    (problem,) = untold([SEEN[0], *SEEN[2:]], WRITES)
    assert "v2" in problem


def test_an_event_that_nobody_wrote_is_found() -> None:
    assert untold([*SEEN, Seen("MODIFIED", "a", 10, "ghost")], WRITES) == ["a: nobody wrote ghost"]


def test_a_revision_below_an_acknowledged_one_is_found() -> None:
    assert backward([MADE, at(2, 3, Set("v2", Done(4)))])


@pytest.mark.parametrize(
    "listed",
    [
        Listed(3.5, 4, 7, {"a": Found("v1", 5)}),
        Listed(3.5, 4, 7, {}),
        Listed(3.5, 4, 5, {"a": Found("v1", 5)}),
    ],
    ids=["another state", "something left out", "older than what was acknowledged"],
)
def test_a_wrong_list_is_found(listed: Listed) -> None:
    assert wrong_lists(SEEN, [listed], WRITES["a"])
