"""The signal of a turn, in which the machine reports its steps.

    turn = TurnSignal(api, key, machine, informer, clock)
    await turn.reach("Cordoning")
    turn.step                             # Cordoning, until the leader moves on

Steps only go forward. A write is bound to the version of the object that was read; after a conflict the
object is read again. If the object has another signal meanwhile, or none, the turn is withdrawn.
"""

from __future__ import annotations

import asyncio
from typing import Final

from pilothouse.api.k0s.signals import DOWNLOADING, STEPS, Signal, SignalError, read_signal
from pilothouse.api.objects import Object
from pilothouse.base.backoff import Backoff
from pilothouse.base.clock import Clock
from pilothouse.base.rfc3339 import format_time
from pilothouse.client.api import Api
from pilothouse.client.informer import Informer
from pilothouse.meta.errors import StatusError
from pilothouse.node.updating.update_journal import TurnIdentity, turn_key

_CONFLICT_BACKOFF: Final = Backoff(first=0.02, factor=2.0, longest=1.0)
_MOST_CONFLICTS: Final = 20


class TurnSignal:
    def __init__(
        self, api: Api, key: TurnIdentity, machine: Object, informer: Informer, clock: Clock
    ) -> None:
        """``machine`` is the object with the signal, ``informer`` follows it."""
        self._api = api
        self._key = key
        self._read = machine
        self._informer = informer
        self._clock = clock

    @property
    def step(self) -> str:
        """How far the turn is; empty at its start, and if it is withdrawn."""
        signal = self._signal()
        return signal.step if signal is not None else ""

    @property
    def is_withdrawn(self) -> bool:
        """Whether the turn is over: the object has another signal or none, or this one has ended."""
        signal = self._signal()
        return signal is None or signal.ended

    async def withdrawn(self) -> None:
        """Wait until the turn is withdrawn."""
        changed = asyncio.Event()
        unsubscribe = self._informer.follow(changed.set)
        try:
            while not self.is_withdrawn:
                changed.clear()
                await changed.wait()
        finally:
            unsubscribe()

    async def reach(self, step: str, reason: str = "") -> None:
        """Report a step, unless the turn is there or further already. Raises StatusError, TransportError."""
        for failures in range(1, _MOST_CONFLICTS + 1):
            signal = self._signal()
            if signal is None or signal.ended or _is_passed(signal.step, step):
                return
            machine = self._latest()
            now = max(format_time(self._clock.now()), signal.status.timestamp if signal.status else "")
            annotations = signal.advanced(step, now, reason).annotations()
            body = {"metadata": {"resourceVersion": machine.resource_version, "annotations": annotations}}
            try:
                self._read = await self._api.patch(machine.noun, machine.name, "", body)
            except StatusError as refusal:
                if refusal.code != 409 or failures == _MOST_CONFLICTS:
                    raise
                await asyncio.sleep(_CONFLICT_BACKOFF.after(failures))
                self._read = await self._api.get(machine.noun, machine.name)
            else:
                return

    async def explain(self, reason: str) -> None:
        """Report what keeps the turn at its step, unless that is reported already. The time of the step
        stays. Raises StatusError, TransportError."""
        signal = self._signal()
        if signal is None or signal.ended:
            return
        since = signal.status.timestamp if signal.status else format_time(self._clock.now())
        explained = signal.advanced(signal.step or DOWNLOADING, since, reason)
        if explained == signal:
            return
        machine = self._latest()
        metadata = {"resourceVersion": machine.resource_version, "annotations": explained.annotations()}
        self._read = await self._api.patch(machine.noun, machine.name, "", {"metadata": metadata})

    def _seen(self) -> Object | None:
        return self._informer.cache.get("", self._read.name)

    def _latest(self) -> Object:
        seen = self._seen()
        return seen if seen is not None and seen.revision > self._read.revision else self._read

    def _signal(self) -> Signal | None:
        """The signal, as it was last read; None if it is not that of the turn."""
        if self._seen() is None:
            return None
        try:
            signal = read_signal(self._latest().annotations)
        except SignalError:
            return None
        return signal if signal is not None and turn_key(signal) == self._key else None


def _is_passed(reached: str, step: str) -> bool:
    return reached in STEPS and step in STEPS and STEPS.index(step) <= STEPS.index(reached)
