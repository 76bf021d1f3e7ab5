"""Simulated machines with update agents, and the readiness of those that are controllers.

    machines = UpdateMachines(
        server.api("machines"), fresh_machines(["c0", "c1"], ["n0"]), clock, random.Random(7)
    )
    await machines.run()                   # until cancelled; raises InvariantViolated

A machine follows the signal on its object as the update agent does: it reads the plan, downloads, waits to be
drained, is away for a while, and comes back in another version, or in the old one. What it has begun it
remembers, as the agent's journal does. Readiness is asked by the real ``PlanObserver``, and answered by the
model, after a while. At most one controller may be away for an update at any time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from random import Random
from typing import Final

import msgspec

from pilothouse.aio.task_group import together
from pilothouse.api.k0s.heartbeats import LEASE_NAMESPACE, control_node_lease
from pilothouse.api.k0s.rollout import Gate
from pilothouse.api.k0s.signals import (
    APPLYING,
    COMPLETED,
    CORDONING,
    DOWNLOADING,
    FAILED,
    FAILED_DOWNLOAD,
    RESTART,
    UNCORDONING,
    Signal,
    SignalError,
    read_signal,
)
from pilothouse.api.k0s.v1beta2 import (
    RUNNING_PLAN,
    GateAnswer,
    PlanStatus,
    ReadinessAnswer,
    RemovedApisAnswer,
)
from pilothouse.api.kind_names import ControlNode, KindName, Node, Plan
from pilothouse.api.objects import Object
from pilothouse.base.clock import Clock
from pilothouse.base.rfc3339 import format_time
from pilothouse.client.api import Api
from pilothouse.client.informer import Informer
from pilothouse.client.object_cache import CacheChange
from pilothouse.client.shared_informers import SharedInformers
from pilothouse.client.transport import TransportError
from pilothouse.meta.errors import StatusError
from pilothouse.runtime.controller import Controller
from pilothouse.runtime.manager import Observer
from pilothouse.sim import heartbeats
from pilothouse.sim.invariant_checker import InvariantViolated
from pilothouse.updates.plan_observer import PlanObserver

GATE_SECONDS: Final = 20.0
FIRST_VERSION: Final = "v1.30.0"
PLATFORM: Final = {"kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"}
Seconds = tuple[float, float]
"""How long something takes, from and to."""
_REFUSED: Final = (StatusError, TransportError)


class UpdateTiming(msgspec.Struct, frozen=True):
    """How long the steps of a machine take, and how often one fails."""

    download: Seconds = (1.0, 6.0)
    restart: Seconds = (2.0, 15.0)
    answer: Seconds = (0.0, 8.0)
    """Of the controllers, when they are asked whether they are ready."""
    failing: float = 0.04
    """The probability that a download, or a new version, fails."""
    shutting: float = 0.0
    """The probability that a gate is shut, for ``GATE_SECONDS`` at a time."""


class UpdateMachine(msgspec.Struct):
    """One machine, and what its agent remembers."""

    noun: KindName
    name: str
    version: str = FIRST_VERSION
    turn: str = ""
    """The turn that it is in."""
    due: float = 0.0
    """When the current step is done."""
    before: str = ""
    """The version to which it can return."""
    away: bool = False
    """It restarts."""
    defect: str = ""
    """Why it never gets ready, if it is a controller that does not."""

    @property
    def is_controller(self) -> bool:
        return self.noun == ControlNode


def fresh_machines(controllers: Iterable[str], workers: Iterable[str]) -> list[UpdateMachine]:
    """Machines of the first version."""
    return [
        *(UpdateMachine(ControlNode, name) for name in controllers),
        *(UpdateMachine(Node, name) for name in workers),
    ]


class UpdateMachines:
    def __init__(
        self,
        api: Api,
        machines: Iterable[UpdateMachine],
        clock: Clock,
        rng: Random,
        *,
        timing: UpdateTiming = UpdateTiming(),
        registers: bool = True,
    ) -> None:
        """With ``registers``, controllers create their ControlNodes, and all machines label their objects."""
        self._api = api
        self._clock = clock
        self._rng = rng
        self._timing = timing
        self._registers = registers
        self._gates = rng.random() if timing.shutting else 0.0
        """Which gates are shut, and when."""
        self._machines = {(one.noun, one.name): one for one in machines}
        self._controllers = [one for one in self._machines.values() if one.is_controller]
        self._changed = dict.fromkeys(self._machines)
        """The machines to look at, in the order in which their objects have changed."""
        self._woken = asyncio.Event()
        self._informers = {noun: Informer(api, noun, rng, clock) for noun in (ControlNode, Node)}
        self.fewest_ready = self._ready
        """The smallest number of controllers that were ready at once."""

    @property
    def _ready(self) -> int:
        return sum(not one.away and not one.defect for one in self._controllers)

    async def run(self) -> None:
        """Run until cancelled. Raises ``InvariantViolated``."""
        for noun, informer in self._informers.items():
            informer.subscribe(partial(self._note, noun))
        await together(
            {
                **{noun.plural: informer.run() for noun, informer in self._informers.items()},
                "machines": self._work_every_second(),
                "heartbeats": self._renew_leases(),
            }
        )

    @property
    def controllers(self) -> Sequence[Controller]:
        return ()

    def observers(self, api: Api, informers: SharedInformers, clock: Clock) -> Mapping[str, Observer]:
        """The observer of a manager: it asks this model."""
        return {"plan-observer": PlanObserver(api, informers.get(Plan), clock, self).run}

    # The answers of the model

    async def readiness(self) -> tuple[ReadinessAnswer, ...]:
        answers = tuple(
            ReadinessAnswer(
                name=each.name, ready=not each.away and not each.defect, message=each.defect or "asked"
            )
            for each in self._controllers
        )
        await asyncio.sleep(self._rng.uniform(*self._timing.answer))
        return answers

    async def removed_apis(self, version: str) -> RemovedApisAnswer:
        return RemovedApisAnswer(version=version)

    async def gate(self, gate: Gate) -> GateAnswer:
        turn = Random(f"{gate.name} {self._gates} {self._clock.now() // GATE_SECONDS}")
        is_open = turn.random() >= self._timing.shutting
        return GateAnswer(name=gate.name, open=is_open, message="" if is_open else "it is shut")

    # The machines

    async def _renew_leases(self) -> None:
        while self._registers:
            for machine in self._controllers:
                with suppress(*_REFUSED):
                    lease = control_node_lease(machine.name)
                    await heartbeats.renew(self._api, lease, LEASE_NAMESPACE, machine.name, self._clock)
            await asyncio.sleep(heartbeats.EVERY)
        await asyncio.get_running_loop().create_future()

    def _note(self, noun: KindName, change: CacheChange) -> None:
        one = change.new or change.old
        if one is not None and (noun, one.name) in self._machines:
            self._changed[noun, one.name] = None
            self._woken.set()

    async def _work_every_second(self) -> None:
        while True:
            if not self._changed:
                self._woken.clear()
                await self._woken.wait()
            await asyncio.sleep(1)
            for key in list(self._changed):
                del self._changed[key]
                try:
                    goes_on = await self._work(self._machines[key])
                except _REFUSED:
                    goes_on = True  # The server is away, or another client wrote first.
                if goes_on:
                    self._changed[key] = None
            self.fewest_ready = min(self.fewest_ready, self._ready)
            away = [machine.name for machine in self._controllers if machine.away]
            if len(away) > 1:
                raise InvariantViolated(f"two controllers are away at once: {', '.join(away)}")

    async def _work(self, machine: UpdateMachine) -> bool:
        """Do what is due. False if there is nothing more to do until the object changes."""
        found = self._informers[machine.noun].cache.get("", machine.name)
        if found is None:
            if machine.is_controller and self._registers:
                await self._register(machine)
            return self._registers
        missing = {key: value for key, value in PLATFORM.items() if found.labels.get(key) != value}
        if missing and self._registers:
            await self._api.patch(machine.noun, machine.name, "", {"metadata": {"labels": missing}})
        if machine.is_controller and not machine.away:
            await self._report(machine, found)
        try:
            signal = read_signal(found.annotations)
        except SignalError as problem:
            raise InvariantViolated(f"the signal on {machine.name} can't be read: {problem}") from None
        return signal is not None and not signal.ended and await self._advance(machine, found, signal)

    async def _register(self, machine: UpdateMachine) -> None:
        labels = {"kubernetes.io/hostname": machine.name, **PLATFORM}
        annotations = {"autopilot.k0sproject.io/mode": "controller"}
        metadata = {"name": machine.name, "labels": labels, "annotations": annotations}
        tree = {"apiVersion": ControlNode.api_version, "kind": ControlNode.kind, "metadata": metadata}
        await self._api.create(ControlNode, tree)

    async def _report(self, machine: UpdateMachine, found: Object) -> None:
        if found.status.get("k0sVersion", "") != machine.version:
            status = {"k0sVersion": machine.version}
            await self._api.patch(ControlNode, machine.name, "", {"status": status}, subresource="status")

    async def _advance(self, machine: UpdateMachine, found: Object, signal: Signal) -> bool:
        """Take the next step, if it is this machine's to take and its time has come. False if the plan does
        not name the machine."""
        turn = f"{signal.plan_uid} {signal.generation} {signal.command.id} {signal.rollback}"
        now, rng, timing = self._clock.now(), self._rng, self._timing
        if machine.turn != turn:
            if not await self._is_ordered(machine, signal):
                return False
            machine.turn, machine.due = turn, now + rng.uniform(*timing.download)
            await self._say(machine, found, signal, DOWNLOADING)
            return True
        if now < machine.due:
            return True
        update = signal.command.k0supdate
        wanted = machine.before if signal.rollback else update.version if update else machine.version
        match signal.step:
            case "":
                await self._say(machine, found, signal, DOWNLOADING)
            case "Downloading" if update is None or machine.version == wanted:
                await self._say(machine, found, signal, COMPLETED)
            case "Downloading":
                lost = rng.random() < timing.failing
                await self._say(machine, found, signal, FAILED_DOWNLOAD if lost else CORDONING)
            case step if step == APPLYING:
                machine.due = now + rng.uniform(*timing.restart)
                await self._say(machine, found, signal, RESTART)
                machine.away = True
            case step if step == RESTART and machine.away:
                machine.away = False
                if rng.random() >= timing.failing:
                    machine.before, machine.version = machine.version, wanted
            case step if step == RESTART and machine.version != wanted:
                await self._say(machine, found, signal, FAILED)
            case step if step == RESTART:
                await self._say(machine, found, signal, UNCORDONING)
        return True

    async def _is_ordered(self, machine: UpdateMachine, signal: Signal) -> bool:
        """Whether the plan that runs names this machine: the signal says when, the plan says what."""
        plan = await self._api.find(Plan, RUNNING_PLAN)
        if plan is None or plan.uid != signal.plan_uid:
            return False
        status = msgspec.convert(plan.status, PlanStatus)
        if status.run_generation != signal.generation or signal.command.id >= len(status.commands):
            return False
        command = status.commands[signal.command.id]
        k0s, bundle = command.k0supdate, command.airgapupdate
        parts = (*(k0s.controllers if machine.is_controller else k0s.workers),) if k0s else ()
        named = {each.name for each in (*parts, *(bundle.workers if bundle else ()))}
        return status.state in ("Schedulable", "SchedulableWait") and machine.name in named

    async def _say(self, machine: UpdateMachine, found: Object, signal: Signal, step: str) -> None:
        reason = "it did not work" if step in (FAILED, FAILED_DOWNLOAD) else ""
        said = signal.advanced(step, format_time(self._clock.now()), reason)
        metadata = {"resourceVersion": found.resource_version, "annotations": said.annotations()}
        await self._api.patch(machine.noun, machine.name, "", {"metadata": metadata})
