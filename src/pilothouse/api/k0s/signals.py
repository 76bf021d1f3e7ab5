"""Signals: how a plan tells a machine that its turn has come, and how the machine answers.

    annotations = Signal("id123", now, SignalCommand(0, k0supdate=update)).annotations()
    signal = read_signal(node.annotations)          # None if there is none; SignalError if it is broken
    signal = signal.advanced("Cordoning", now)      # SignalError for a step back

The two annotations are k0s's own, so its tools can read them. ``planUid``, ``generation``, ``rollback`` and
``reason`` are ours: a plan that is deleted and created again under the same id is another plan.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from pilothouse.base.rfc3339 import TimeError, parse_time

VERSION_ANNOTATION: Final = "k0sproject.io/autopilot-signal-version"
DATA_ANNOTATION: Final = "k0sproject.io/autopilot-signal-data"
VERSION: Final = "v2"
_LONGEST_REASON: Final = 1024

DOWNLOADING: Final = "Downloading"
CORDONING: Final = "Cordoning"
APPLYING: Final = "ApplyingUpdate"
RESTART: Final = "Restart"
UNCORDONING: Final = "UnCordoning"
COMPLETED: Final = "Completed"
FAILED_DOWNLOAD: Final = "FailedDownload"
FAILED: Final = "Failed"
STEPS: Final = (DOWNLOADING, CORDONING, APPLYING, RESTART, UNCORDONING, COMPLETED)
"""In the order in which a machine takes them. An airgapupdate goes from the first to the last."""
ENDS: Final = (COMPLETED, FAILED_DOWNLOAD, FAILED)
_REPORTED: Final = {
    "": (DOWNLOADING, CORDONING, COMPLETED, FAILED_DOWNLOAD, FAILED),
    DOWNLOADING: (DOWNLOADING, CORDONING, COMPLETED, FAILED_DOWNLOAD, FAILED),
    CORDONING: (CORDONING, FAILED),
    APPLYING: (APPLYING, RESTART, FAILED),
    RESTART: (RESTART, UNCORDONING, FAILED),
    UNCORDONING: (UNCORDONING, FAILED),
}
"""The steps that a machine reports, by the step it is at. The manager writes that it is drained, and that it
is uncordoned."""


class SignalError(ValueError):
    """The annotations are not a signal, or a step would lead back."""


class SignalUpdate(msgspec.Struct, frozen=True, omit_defaults=True):
    """What is downloaded, as k0s's agents expect it. Ours read it from the plan instead."""

    url: str
    version: str
    sha256: str = ""
    forceupdate: bool = False


class SignalCommand(msgspec.Struct, frozen=True, omit_defaults=True):
    """The command of the plan, by its number, and its content."""

    id: int
    k0supdate: SignalUpdate | None = None
    airgapupdate: SignalUpdate | None = None


class SignalStatus(msgspec.Struct, frozen=True, omit_defaults=True):
    """How far the machine is."""

    status: str
    timestamp: str
    reason: str = ""


class Signal(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    """One turn of one machine."""

    plan_id: str
    created: str
    command: SignalCommand
    plan_uid: str = ""
    generation: int = 0
    rollback: bool = False
    """Return to the version that ran before, which the machine has kept."""
    status: SignalStatus | None = None

    def annotations(self) -> dict[str, str]:
        """The annotations of the ControlNode or Node."""
        return {VERSION_ANNOTATION: VERSION, DATA_ANNOTATION: msgspec.json.encode(self).decode()}

    @property
    def step(self) -> str:
        """How far the machine is; empty if it has not answered."""
        return self.status.status if self.status else ""

    @property
    def ended(self) -> bool:
        """Whether the machine has nothing more to do."""
        return self.step in ENDS

    def same_turn(self, other: Signal) -> bool:
        """Whether two signals are one turn, however far it is."""
        return msgspec.structs.replace(self, status=None) == msgspec.structs.replace(other, status=None)

    def advanced(self, step: str, now: str, reason: str = "") -> Signal:
        """The signal after a step. Raises SignalError for a step back, or after the end."""
        if step not in STEPS and step not in ENDS:
            raise SignalError(
                f"{step!r} is not a step: expected one of {', '.join(STEPS)}, {FAILED_DOWNLOAD} or {FAILED}"
            )
        if self.ended:
            raise SignalError(f"the machine has ended as {self.step} and does not become {step}")
        if step in STEPS and self.step in STEPS and STEPS.index(step) < STEPS.index(self.step):
            raise SignalError(f"the machine is at {self.step} and does not go back to {step}")
        return msgspec.structs.replace(self, status=SignalStatus(step, now, reason[:_LONGEST_REASON]))


def report_problem(before: Mapping[str, str], after: Mapping[str, str]) -> str:
    """Why a machine may not change the annotations of its object so; empty if it may."""
    keys = (VERSION_ANNOTATION, DATA_ANNOTATION)
    if all(before.get(key) == after.get(key) for key in keys):
        return ""
    try:
        old, new = read_signal(before), read_signal(after)
    except SignalError as problem:
        return str(problem)
    if old is None or new is None or not old.same_turn(new):
        return "a machine changes only the status of the signal that it has"
    if new.step not in _REPORTED.get(old.step, ()):
        return f"a machine does not go from {old.step or 'no step'} to {new.step or 'no step'} by itself"
    if new.status is not None and len(new.status.reason) > _LONGEST_REASON:
        return f"a reason has at most {_LONGEST_REASON} characters"
    try:
        parse_time(new.status.timestamp if new.status is not None else "")
    except TimeError as problem:
        return f"the timestamp is none: {problem}"
    return ""


def read_signal(annotations: Mapping[str, str]) -> Signal | None:
    """The signal in the annotations of an object; None if it has none."""
    version, data = annotations.get(VERSION_ANNOTATION), annotations.get(DATA_ANNOTATION)
    if version is None or data is None:
        return None
    if version != VERSION:
        raise SignalError(f"{VERSION_ANNOTATION} is {version!r}: expected {VERSION!r}")
    try:
        signal = msgspec.json.decode(data, type=Signal)
    except (msgspec.DecodeError, RecursionError) as problem:
        raise SignalError(f"{DATA_ANNOTATION} can't be read: {problem}") from None
    if lacking := _lacking(signal):
        raise SignalError(f"{DATA_ANNOTATION}: {lacking}")
    return signal


def _lacking(signal: Signal) -> str:
    command = signal.command
    if not signal.plan_id or not signal.created:
        return "planId and created are needed"
    if (command.k0supdate is None) == (command.airgapupdate is None):
        return "command needs exactly one of k0supdate and airgapupdate"
    update = command.k0supdate or command.airgapupdate
    if update is None or not update.url or not update.version:
        return "the update needs url and version"
    if signal.status and not (signal.status.status and signal.status.timestamp):
        return "status needs status and timestamp"
    return ""
