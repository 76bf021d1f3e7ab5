"""The signals of a run: which annotations belong to it, and those of a new turn.

A signal counts for a run only if the plan's uid, the generation, the number of the command, its kind and the
direction are the run's. Whatever an earlier run, or a plan of the same id, has left behind is another turn.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from pilothouse.api.k0s.signals import Signal, SignalCommand, SignalError, SignalUpdate, read_signal
from pilothouse.api.k0s.v1beta2 import AirgapUpdate, K0sUpdate, PlatformResource
from pilothouse.api.objects import Object


class SignalScope(msgspec.Struct, frozen=True):
    """What the signals of one stage of a run have in common."""

    plan_id: str
    plan_uid: str
    generation: int
    command: int
    update: K0sUpdate | AirgapUpdate
    rollback: bool = False

    def find(self, machine: Object) -> Signal | None:
        """The signal of this run that a machine has, if any."""
        signal = signal_on(machine)
        return signal if signal is not None and self._is_of(signal) else None

    def new(self, created: str, payload: PlatformResource) -> Signal:
        """The signal that begins a machine's turn."""
        update = SignalUpdate(payload.url, self.update.version, payload.sha256 or "")
        if isinstance(self.update, K0sUpdate):
            update = msgspec.structs.replace(update, forceupdate=self.update.forceupdate)
            command = SignalCommand(self.command, k0supdate=update)
        else:
            command = SignalCommand(self.command, airgapupdate=update)
        return Signal(
            self.plan_id,
            created,
            command,
            plan_uid=self.plan_uid,
            generation=self.generation,
            rollback=self.rollback,
        )

    def _is_of(self, signal: Signal) -> bool:
        return (
            signal.plan_uid == self.plan_uid
            and signal.generation == self.generation
            and signal.command.id == self.command
            and (signal.command.airgapupdate is not None) == isinstance(self.update, AirgapUpdate)
            and signal.rollback == self.rollback
        )


def signal_on(machine: Object) -> Signal | None:
    """The signal on a machine, of any plan; None if there is none that can be read."""
    try:
        return read_signal(machine.annotations)
    except SignalError:
        return None


def platform_of(labels: Mapping[str, str]) -> str:
    """The key of a plan's platforms, such as linux-amd64; empty if the machine does not say."""
    system, architecture = labels.get("kubernetes.io/os", ""), labels.get("kubernetes.io/arch", "")
    return f"{system}-{architecture}" if system and architecture else ""
