"""What to do next in the life of an instance: a pure decision, taken again after everything that happens.

    act = decide(life, wish, asked=False, hooks=names)
    match act:
        case RunHook(phase, name): ...      # then life = life.ran(phase, name)
        case StartDatabase(): ...                  # then life = life.launched(wish)
        case StopDatabase(because): ...             # then life = life.halting(because), and once it has ended life.ended(exit)
        case RestartInstance(): life = life.anew()
        case WaitForChange(): ...                    # until something happens
        case ExitPilot(code): ...               # the pilot's own exit code

* Nothing is started before the Pilot is there. A Pilot that goes away later changes nothing: the database goes on with what it has.
* Hooks run in order, each once for every start. What has been done is not done again when a later one fails, unless another configuration
  is asked for by then: a database is started with nothing that was prepared for an earlier one.
* Hooks for a database that runs, PostStart and PreStop, are left once it has ended, whatever of them is still to be done.
* A configuration with another hash restarts the database in place: PreStop, stop, PostStop, and all over again. Not one that somebody else than its cluster
  has put there, which is about to be put right.
* A database that ends by itself ends the pilot, with a code that is not 0, so that the pod is started anew.
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
    """Have the database stop."""

    because: str


class RestartInstance(msgspec.Struct, frozen=True):
    """Begin the next start."""


class WaitForChange(msgspec.Struct, frozen=True):
    """Wait for something to happen."""


class ExitPilot(msgspec.Struct, frozen=True):
    code: int


Act = RunHook | StartDatabase | StopDatabase | RestartInstance | WaitForChange | ExitPilot


class InstanceHistory(msgspec.Struct, frozen=True):
    """What has happened to the instance since its pilot began."""

    standing: Standing = "Waiting"
    is_running: bool = False
    has_ended: bool = False
    """The database of this start."""
    was_asked: bool = False
    """It ended because it was to."""
    is_clean: bool = True
    starts: int = 0
    hash: str = ""
    """Of the configuration that it runs with, and the generation that this was taken from."""
    generation: int = 0
    stopping: str = ""
    """Why it is being stopped."""
    prepared: str = ""
    """The hash of the configuration that the next start is prepared for."""
    done: frozenset[tuple[Phase, str]] = frozenset()

    def preparing_for(self, hash: str) -> InstanceHistory:
        """What was done for a start with another configuration is to be done again."""
        if self.is_running or self.has_ended or self.prepared == hash:
            return self
        kept = frozenset(each for each in self.done if each[0] != "PreStart")
        return msgspec.structs.replace(self, prepared=hash, done=kept)

    def ran(self, phase: Phase, name: str) -> InstanceHistory:
        """A hook is done, or given up."""
        return msgspec.structs.replace(self, done=self.done | {(phase, name)})

    def preparing(self) -> InstanceHistory:
        return msgspec.structs.replace(self, standing="PreStart")

    def launched(self, wish: DesiredState) -> InstanceHistory:
        return msgspec.structs.replace(
            self,
            standing="Running",
            is_running=True,
            starts=self.starts + 1,
            hash=wish.hash,
            generation=wish.generation,
        )

    def confirmed(self, generation: int) -> InstanceHistory:
        """A newer generation of the Pilot asks for the very same configuration."""
        return msgspec.structs.replace(self, generation=generation)

    def halting(self, because: str) -> InstanceHistory:
        return msgspec.structs.replace(self, standing="PreStop", stopping=because)

    def ended(self, *, clean: bool) -> InstanceHistory:
        """The database is gone."""
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
    life: InstanceHistory, wish: DesiredState | None, *, asked: bool, hooks: Names, restart: str = ""
) -> Act:
    """What is to be done now. ``asked`` is whether the pilot was told to stop; ``restart`` is the driver's own reason."""
    if life.is_running:
        reason = life.stopping or why_stop(life, wish, asked=asked, restart=restart)
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
    if wish is None:
        return WaitForChange()
    return _pending(life, hooks, "PreStart") or StartDatabase()


def why_stop(life: InstanceHistory, wish: DesiredState | None, *, asked: bool, restart: str = "") -> str:
    """Why a running database should stop; empty if it should go on."""
    if asked:
        return "the pilot was told to stop"
    if wish is not None and wish.vouched and wish.hash != life.hash:
        return f"its configuration has changed (generation {wish.generation})"
    return restart


def gives_up(phase: Phase, attempts: int, *, asked: bool, urgency: int) -> bool:
    """Whether a hook that failed so often is left undone. One that prepares a start never is, unless there is to be
    none. One on the way to the end is: a database that can't even be told that it is about to stop is of no use, and the pod's time is limited."""
    if phase in ("PreStart", "PostStart"):
        return asked
    return urgency > 1 or attempts >= (3 if asked else 6)


def _pending(life: InstanceHistory, hooks: Names, phase: Phase) -> RunHook | None:
    for name in hooks.get(phase, ()):
        if (phase, name) not in life.done:
            return RunHook(phase, name)
    return None
