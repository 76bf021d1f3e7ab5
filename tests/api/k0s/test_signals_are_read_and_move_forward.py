"""What a plan tells a machine by annotations: read strictly, in k0s's own form, and never moved back."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pilothouse.api.k0s.signals import (
    DATA_ANNOTATION,
    ENDS,
    STEPS,
    VERSION_ANNOTATION,
    Signal,
    SignalCommand,
    SignalError,
    SignalUpdate,
    read_signal,
)

NOW = "2026-11-18T10:00:00Z"
UPDATE: dict[str, Any] = {"url": "https://example.com/k0s", "version": "v1.32.4+k0s.0"}
DATA: dict[str, Any] = {
    "planId": "id123",
    "created": NOW,
    "command": {"id": 0, "k0supdate": UPDATE},
}


def annotated(data: Any, version: str = "v2") -> dict[str, str]:
    return {VERSION_ANNOTATION: version, DATA_ANNOTATION: data if isinstance(data, str) else json.dumps(data)}


def test_a_signal_of_k0s_is_read() -> None:
    signal = read_signal(annotated({**DATA, "status": {"status": "Cordoning", "timestamp": NOW}, "later": 1}))
    assert signal is not None
    assert (signal.plan_id, signal.step, signal.command.k0supdate) == (
        "id123",
        "Cordoning",
        SignalUpdate(**UPDATE),
    )


def test_what_is_written_is_read_again() -> None:
    update = SignalUpdate("https://example.com/k0s", "v1.32.4", "ab" * 32, True)
    signal = Signal("id123", NOW, SignalCommand(1, airgapupdate=update), "uid-1", 7).advanced(
        "Downloading", NOW
    )
    assert read_signal(signal.annotations()) == signal


@pytest.mark.parametrize("annotations", [{}, {VERSION_ANNOTATION: "v2"}, {DATA_ANNOTATION: json.dumps(DATA)}])
def test_one_annotation_alone_is_no_signal(annotations: dict[str, str]) -> None:
    assert read_signal(annotations) is None


@pytest.mark.parametrize(
    ("data", "word"),
    [
        ("{", "can't be read"),
        ("[" * 100_000, "can't be read"),
        ({**DATA, "planId": ""}, "planId"),
        ({**DATA, "created": ""}, "created"),
        ({**DATA, "command": {"id": None, "k0supdate": UPDATE}}, "id"),
        ({**DATA, "command": {"id": 0}}, "exactly one"),
        ({**DATA, "command": {"id": 0, "k0supdate": UPDATE, "airgapupdate": UPDATE}}, "exactly one"),
        ({**DATA, "command": {"id": 0, "k0supdate": {**UPDATE, "url": ""}}}, "url"),
        ({**DATA, "status": {"status": "", "timestamp": NOW}}, "status"),
    ],
)
def test_what_is_no_signal_says_why(data: Any, word: str) -> None:
    with pytest.raises(SignalError, match=word):
        read_signal(annotated(data))


def test_another_version_of_the_protocol_is_refused() -> None:
    with pytest.raises(SignalError, match="v2"):
        read_signal(annotated(DATA, version="v1"))


def test_a_machine_moves_forward_only() -> None:
    signal = read_signal(annotated(DATA))
    assert signal is not None
    for step in STEPS:
        signal = signal.advanced(step, NOW)
        for earlier in STEPS[: STEPS.index(step)]:
            with pytest.raises(SignalError):
                signal.advanced(earlier, NOW)


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("step", [*STEPS, "Failed"])
def test_nothing_follows_the_end(end: str, step: str) -> None:
    signal = Signal("id123", NOW, SignalCommand(0, k0supdate=SignalUpdate(**UPDATE))).advanced(end, NOW)
    with pytest.raises(SignalError, match=end):
        signal.advanced(step, NOW)


def test_a_plan_created_again_under_its_id_is_another_turn() -> None:
    first = Signal("id123", NOW, SignalCommand(0, k0supdate=SignalUpdate(**UPDATE)), plan_uid="a")
    again = Signal("id123", NOW, SignalCommand(0, k0supdate=SignalUpdate(**UPDATE)), plan_uid="b")
    assert first.same_turn(first.advanced("Completed", NOW))
    assert not first.same_turn(again)
