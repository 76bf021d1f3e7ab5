"""What to do next with an instance: a pure decision, taken again after each event.

    match decide(life, desired, asked=False, hooks=names):
        case RunHook(phase, name): ...      # then life = life.ran(phase, name)
        case StartDatabase(): ...           # then life = life.launched(desired)
        case StopDatabase(because): ...     # then life = life.halting(because), at its exit life.ended(...)

* The Pilot must exist for the first start. If it is deleted later, the database runs on.
* Hooks run in order, each once for every start. If one fails, those before it are not repeated, unless the
  configuration has changed by then. PostStart and PreStop are skipped once the database has exited.
* A configuration with another hash restarts the database in place: PreStop, stop, PostStop, start; not one
  that another client than the cluster has written, which the cluster is about to correct.
* If the database exits by itself, the pilot exits with a code other than 0: the container is restarted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

import msgspec

from pilothouse.pilot.driver import DesiredState, Phase

Names = Mapping[Phase, Sequence[str]]
"""The hooks of each phase."""
Standing = Literal["Waiting", "PreStart", "Running", "PreStop", "Stopped"]


class RunHook(msgspec.Struct, frozen=True):
    phase: Phase
    name: str


class StartDatabase(msgspec.Struct, frozen=True):
    """Start the database."""


class StopDatabase(msgspec.Struct, frozen=True):
    """Stop the database."""

    because: str


class RestartInstance(msgspec.Struct, frozen=True):
    """Prepare the next start."""


class WaitForChange(msgspec.Struct, frozen=True):
    """Wait until something changes."""


class ExitPilot(msgspec.Struct, frozen=True):
    code: int


Act = RunHook | StartDatabase | StopDatabase | RestartInstance | WaitForChange | ExitPilot


class InstanceHistory(msgspec.Struct, frozen=True):
    standing: Standing = "Waiting"
    is_running: bool = False
    has_ended: bool = False
    """The database has exited since its last start."""
    was_asked: bool = False
    """It exited because it was asked to."""
    is_clean: bool = True
    starts: int = 0
    hash: str = ""
    """Hash of the configuration that it runs with; ``generation`` is that of the Pilot it was taken from."""
    generation: int = 0
    stopping: str = ""
    """Why it is being stopped."""
    prepared: str = ""
    """The hash of the configuration that the next start is prepared for."""
    done: frozenset[tuple[Phase, str]] = frozenset()

    def preparing_for(self, hash: str) -> InstanceHistory:
        """The hooks of PreStart have to run again if they ran for another configuration."""
        if self.is_running or self.has_ended or self.prepared == hash:
            return self
        kept = frozenset(each for each in self.done if each[0] != "PreStart")
        return msgspec.structs.replace(self, prepared=hash, done=kept)

    def ran(self, phase: Phase, name: str) -> InstanceHistory:
        """A hook has run, or was skipped."""
        return msgspec.structs.replace(self, done=self.done | {(phase, name)})

    def preparing(self) -> InstanceHistory:
        return msgspec.structs.replace(self, standing="PreStart")

    def launched(self, desired: DesiredState) -> InstanceHistory:
        return msgspec.structs.replace(
            self,
            standing="Running",
            is_running=True,
            starts=self.starts + 1,
            hash=desired.hash,
            generation=desired.generation,
        )

    def confirmed(self, generation: int) -> InstanceHistory:
        """A newer generation of the Pilot has the same configuration."""
        return msgspec.structs.replace(self, generation=generation)

    def halting(self, because: str) -> InstanceHistory:
        return msgspec.structs.replace(self, standing="PreStop", stopping=because)

    def ended(self, *, clean: bool) -> InstanceHistory:
        return msgspec.structs.replace(
            self,
            standing="Stopped",
            is_running=False,
            has_ended=True,
            was_asked=bool(self.stopping),
            is_clean=clean,
        )

    def anew(self) -> InstanceHistory:
        return InstanceHistory(
            standing="PreStart", starts=self.starts, hash=self.hash, generation=self.generation
        )


def decide(
    life: InstanceHistory, desired: DesiredState | None, *, asked: bool, hooks: Names, restart: str = ""
) -> Act:
    """``asked``: the pilot was asked to stop; ``restart``: the driver's reason for a restart."""
    if life.is_running:
        reason = life.stopping or why_stop(life, desired, asked=asked, restart=restart)
        if reason:
            return _pending(life, hooks, "PreStop") or StopDatabase(reason)
        return _pending(life, hooks, "PostStart") or WaitForChange()
    if life.has_ended:
        if pending := _pending(life, hooks, "PostStop"):
            return pending
        if not life.was_asked:
            return ExitPilot(1)
        if asked:
            return ExitPilot(0 if life.is_clean else 1)
        return RestartInstance()
    if asked:
        return ExitPilot(0)
    if desired is None:
        return WaitForChange()
    return _pending(life, hooks, "PreStart") or StartDatabase()


def why_stop(life: InstanceHistory, desired: DesiredState | None, *, asked: bool, restart: str = "") -> str:
    """Why a running database should stop; empty if it should run on."""
    if asked:
        return "the pilot was asked to stop"
    if desired is not None and desired.vouched and desired.hash != life.hash:
        return f"its configuration has changed (generation {desired.generation})"
    return restart


def gives_up(phase: Phase, attempts: int, *, asked: bool, urgency: int) -> bool:
    """Whether a hook that failed so often is skipped: of a start, only when the pilot is asked to stop; of a
    stop, after a few attempts, since the time that a pod has to stop is limited."""
    if phase in ("PreStart", "PostStart"):
        return asked
    return urgency > 1 or attempts >= (3 if asked else 6)


def _pending(life: InstanceHistory, hooks: Names, phase: Phase) -> RunHook | None:
    for name in hooks.get(phase, ()):
        if (phase, name) not in life.done:
            return RunHook(phase, name)
    return None
