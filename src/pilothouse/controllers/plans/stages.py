"""The order of a run: of each command first the bundle, then the controllers, then the workers.

for stage in stages(spec, status): ...
status = with_targets(status, stage)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, Literal

import msgspec

from pilothouse.api.k0s.v1beta2 import (
    AirgapUpdate,
    AirgapUpdateStatus,
    K0sUpdate,
    K0sUpdateStatus,
    PlanCommandStatus,
    PlanSpec,
    PlanStatus,
    Target,
    TargetStatus,
)
from pilothouse.api.kind_names import ControlNode, KindName, Node

Part = Literal["bundle", "controllers", "workers"]
Targets = tuple[TargetStatus, ...]

PENDING: Final = "SignalPending"
SENT: Final = "SignalSent"
DONE: Final = "SignalCompleted"
FAILED: Final = "SignalApplyFailed"
ROLLED_BACK: Final = "SignalRolledBack"
NO_MACHINE: Final = "SignalMissingNode"
NO_PLATFORM: Final = "SignalMissingPlatform"
UNFINISHED: Final = frozenset({PENDING, SENT})
FAILURES: Final = frozenset({FAILED, NO_MACHINE, NO_PLATFORM})


class Stage(msgspec.Struct, frozen=True):
    """The targets of one kind in one command."""

    command: int
    part: Part
    update: K0sUpdate | AirgapUpdate
    targets: Targets = ()

    @property
    def noun(self) -> KindName:
        """The kind of the objects that stand for its machines."""
        return ControlNode if self.part == "controllers" else Node

    @property
    def target(self) -> Target | None:
        """How its machines are found, and how many at once."""
        if isinstance(self.update, AirgapUpdate):
            return self.update.workers
        return getattr(self.update.targets, self.part, None)

    @property
    def forced(self) -> bool:
        return isinstance(self.update, K0sUpdate) and self.update.forceupdate

    @property
    def finished(self) -> bool:
        return not any(target.state in UNFINISHED for target in self.targets)

    @property
    def in_progress(self) -> Targets:
        return tuple(target for target in self.targets if target.state == SENT)

    def with_changes(self, changed: Iterable[TargetStatus]) -> Stage:
        """The stage with these targets instead of those of the same names."""
        by_name = {target.name: target for target in changed}
        if not by_name:
            return self
        targets = tuple(by_name.get(target.name, target) for target in self.targets)
        return msgspec.structs.replace(self, targets=targets)


def stages_of_command(spec: PlanSpec, number: int) -> Iterator[Stage]:
    """The stages of one command, without targets."""
    command = spec.commands[number]
    if command.airgapupdate is not None:
        yield Stage(number, "bundle", command.airgapupdate)
    if command.k0supdate is not None:
        yield Stage(number, "controllers", command.k0supdate)
        yield Stage(number, "workers", command.k0supdate)


def stages(spec: PlanSpec, status: PlanStatus) -> Iterator[Stage]:
    """Every stage of a run, in order, with its targets."""
    for number in range(min(len(spec.commands), len(status.commands))):
        for stage in stages_of_command(spec, number):
            yield msgspec.structs.replace(stage, targets=_targets(status.commands[number], stage.part))


def with_targets(status: PlanStatus, stage: Stage) -> PlanStatus:
    """The status with the targets of this stage."""
    if _targets(status.commands[stage.command], stage.part) is stage.targets:
        return status
    commands = list(status.commands)
    commands[stage.command] = command_with_targets(commands[stage.command], stage)
    return msgspec.structs.replace(status, commands=tuple(commands))


def command_with_targets(command: PlanCommandStatus, stage: Stage) -> PlanCommandStatus:
    if stage.part == "bundle":
        bundle = AirgapUpdateStatus(workers=stage.targets)
        return msgspec.structs.replace(command, airgapupdate=bundle)
    update = command.k0supdate or K0sUpdateStatus()
    if stage.part == "controllers":
        update = msgspec.structs.replace(update, controllers=stage.targets)
    else:
        update = msgspec.structs.replace(update, workers=stage.targets)
    return msgspec.structs.replace(command, k0supdate=update)


def _targets(command: PlanCommandStatus, part: Part) -> Targets:
    if part == "bundle":
        return command.airgapupdate.workers if command.airgapupdate else ()
    if command.k0supdate is None:
        return ()
    return command.k0supdate.controllers if part == "controllers" else command.k0supdate.workers
