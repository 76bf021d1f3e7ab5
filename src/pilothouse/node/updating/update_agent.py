"""Follows the signals on the objects of this machine, and carries out its turns.

    settings = UpdateAgentSettings(name="m1", data=folder, library=images, profile=k0s_profile("worker"))
    agent = UpdateAgent(api, settings, source, clock, rng)
    await agent.run()

A worker's signals are on its Node; those of a controller on its ControlNode. Bundles of images are signalled
on Nodes only. Each object is followed by an informer of its own; the Plan is read once for each turn.
"""

from __future__ import annotations

import asyncio
import fcntl
import logging
import os
from collections.abc import Coroutine, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any, Final, Protocol

import msgspec

from pilothouse.aio.task_group import together
from pilothouse.api.k0s.payloads import Payload
from pilothouse.api.k0s.signals import Signal, SignalError, read_signal
from pilothouse.api.kind_names import ControlNode, KindName, Node
from pilothouse.api.objects import Object
from pilothouse.base.backoff import Backoff
from pilothouse.base.clock import Clock
from pilothouse.client.access import AccessError
from pilothouse.client.api import Api
from pilothouse.client.informer import Informer
from pilothouse.client.transport import TransportError
from pilothouse.meta.errors import StatusError
from pilothouse.node.agent import DataInUse
from pilothouse.node.images.image_store import ImageStore
from pilothouse.node.interfaces import PayloadSource
from pilothouse.node.updating.bundle_update import BundleUpdate
from pilothouse.node.updating.control_node_report import ControlNodeReport
from pilothouse.node.updating.installed_program import InstalledProgram, ProgramFiles
from pilothouse.node.updating.installed_tree import InstalledTree
from pilothouse.node.updating.managed_program import ManagedProgram
from pilothouse.node.updating.node_version_report import NodeVersionReport
from pilothouse.node.updating.own_program import OwnInstallation, OwnProgram
from pilothouse.node.updating.planned_payload import NotPlanned, planned_payload
from pilothouse.node.updating.program_update import ProgramUpdate
from pilothouse.node.updating.supervised_program import SupervisedProgram
from pilothouse.node.updating.turn_signal import TurnSignal
from pilothouse.node.updating.update_journal import TurnIdentity, UpdateJournal, turn_key
from pilothouse.node.updating.update_profile import Mode, UpdateProfile
from pilothouse.pki.private_files import private_folder

_PLAN_BACKOFF: Final = Backoff(first=0.25, factor=2.0, longest=30.0)
"""The Plan may name the machine only a moment after the signal was sent."""
_RETRY_BACKOFF: Final = Backoff(first=0.5, factor=2.0, longest=30.0)
_FAILURES: Final = (StatusError, TransportError, AccessError, OSError)

log = logging.getLogger(__name__)


class UpdateAgentSettings(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    """Of the Node and the ControlNode."""
    data: Path
    """The agent's own folder: its journals, and the runs of a program that it supervises."""
    library: Path
    """Where bundles go if the profile has no folder for them: the images of our nodes."""
    profile: UpdateProfile
    mode: Mode = "worker"
    address: str = "127.0.0.1"
    """The address of the machine, for its ControlNode."""
    api_port: int = 0
    """The port of the machine's API server, for its ControlNode; 0 for none."""


class MachineUpdate(Protocol):
    """One kind of update."""

    @property
    def journal(self) -> UpdateJournal: ...
    async def accept(self, key: TurnIdentity, payload: Payload, step: str, /) -> None: ...
    async def resume(self) -> None: ...
    async def advance(self, turn: TurnSignal) -> None: ...


class UpdateAgent:
    def __init__(
        self,
        api: Api,
        settings: UpdateAgentSettings,
        source: PayloadSource,
        clock: Clock,
        rng: Random,
        own: OwnInstallation | None = None,
    ) -> None:
        """``own`` is how this process runs; it is needed if the profile is for Pilothouse itself."""
        self._settings = settings
        self._program, self._files = _program(settings, own, api)
        nouns = {"worker": (Node,), "controller": (ControlNode,)}.get(settings.mode, (ControlNode, Node))
        informers = {
            noun: Informer(api, noun, rng, clock, fields=f"metadata.name={settings.name}") for noun in nouns
        }
        self._informers = tuple(informers.values())
        self._report: ControlNodeReport | NodeVersionReport
        if ControlNode in informers:
            self._report = ControlNodeReport(
                api,
                informers[ControlNode],
                settings.name,
                settings.address,
                settings.api_port,
                self._program,
            )
        else:
            self._report = NodeVersionReport(api, informers[Node], settings.name, self._program)
        self._api, self._clock, self._source = api, clock, source
        self._informer_of = informers

    async def run(self) -> None:
        """Run until cancelled. Raises DataInUse."""
        settings = self._settings
        with _locked(settings.data):
            work: dict[str, Coroutine[Any, Any, None]] = {"program": self._program.run()}
            for informer in self._informers:
                work[f"{informer.noun.plural} informer"] = informer.run()
            for follower in self._followers():
                work[f"{follower.noun.plural} signals"] = follower.run()
            work["status"] = self._report.run()
            await together(work)

    def _followers(self) -> Iterator[SignalFollower]:
        folder = self._settings.data
        program = ProgramUpdate(
            self._settings.profile,
            self._program,
            self._files,
            UpdateJournal(folder / "program.json"),
            self._source,
            self._clock,
            self._publish_version,
        )
        images = self._settings.profile.images
        library = ImageStore(self._settings.library, self._clock) if images is None else None
        bundle = BundleUpdate(images or folder, library, UpdateJournal(folder / "bundle.json"), self._source)
        own: dict[KindName, dict[str, MachineUpdate]] = {
            noun: {"airgapupdate": bundle} if noun == Node else {} for noun in self._informer_of
        }
        own[ControlNode if ControlNode in own else Node]["k0supdate"] = program
        for noun, updates in own.items():
            yield SignalFollower(
                self._api, self._informer_of[noun], self._settings.name, updates, self._clock
            )

    async def _publish_version(self) -> None:
        await self._report.write()


class SignalFollower:
    """Follows the signals on one object."""

    def __init__(
        self,
        api: Api,
        informer: Informer,
        name: str,
        updates: Mapping[str, MachineUpdate],
        clock: Clock,
    ) -> None:
        """``updates`` are the kinds of update that are signalled there."""
        self.noun = informer.noun
        self._api = api
        self._informer = informer
        self._name = name
        self._updates = updates
        self._clock = clock
        self._refused: tuple[TurnIdentity, int] | None = None

    async def run(self) -> None:
        changed = asyncio.Event()
        await self._resume()
        await self._informer.synced()
        unsubscribe = self._informer.subscribe(lambda _: changed.set())
        failures = 0
        try:
            while True:
                changed.clear()
                try:
                    pause = await self._follow()
                    failures = 0
                except _FAILURES as problem:
                    failures += 1
                    pause = _RETRY_BACKOFF.after(failures)
                    log.warning("update of %s failed, retrying: %s", self._name, problem)
                    if isinstance(problem, OSError):
                        await self._explain(problem)
                try:
                    async with asyncio.timeout(pause):
                        await changed.wait()
                except TimeoutError:
                    continue
        finally:
            unsubscribe()

    async def _resume(self) -> None:
        """Finish what an earlier agent has begun, before the API server answers: it may wait for that."""
        failures = 0
        for update in self._updates.values():
            while True:
                try:
                    await update.resume()
                    break
                except OSError as problem:
                    failures += 1
                    log.warning("update of %s failed, retrying: %s", self._name, problem)
                    await asyncio.sleep(_RETRY_BACKOFF.after(failures))

    async def _follow(self) -> float | None:
        """Go on with the turn of the object; returns when to look again, in seconds, if not at a change."""
        machine = self._informer.cache.get("", self._name)
        signal = _signal_of(machine)
        key = turn_key(signal) if signal is not None else None
        for update in self._updates.values():
            record = update.journal.turn
            if (
                record is not None
                and record.is_open
                and (record.key != key or (signal is not None and signal.ended))
            ):
                # Its signal is gone, replaced or ended. What was begun is brought to an end.
                last = machine or Object.of(_absent(self.noun, self._name))
                await update.advance(TurnSignal(self._api, record.key, last, self._informer, self._clock))
        if machine is None or signal is None or key is None or signal.ended:
            return None
        chosen = self._updates.get(key.kind)
        if chosen is None:
            return None
        record = chosen.journal.turn
        if record is None or record.key != key:
            try:
                payload = await planned_payload(self._api, machine, key)
            except NotPlanned as problem:
                return self._refuse(key, problem)
            await chosen.accept(key, payload, signal.step)
        await chosen.advance(TurnSignal(self._api, key, machine, self._informer, self._clock))
        return None

    async def _explain(self, problem: OSError) -> None:
        """Report what keeps the machine from going on, such as a full disk, if the API server answers."""
        machine = self._informer.cache.get("", self._name)
        signal = _signal_of(machine)
        if machine is None or signal is None:
            return
        where = f"{problem.filename}: " if problem.filename else ""
        reason = f"{where}{problem.strerror or problem}; trying again"
        turn = TurnSignal(self._api, turn_key(signal), machine, self._informer, self._clock)
        try:
            await turn.explain(reason)
        except (StatusError, TransportError, AccessError) as refusal:
            log.warning("why the update of %s waits is not reported yet: %s", self._name, refusal)

    def _refuse(self, key: TurnIdentity, problem: NotPlanned) -> float:
        failures = self._refused[1] + 1 if self._refused is not None and self._refused[0] == key else 1
        self._refused = key, failures
        if failures == 1:
            log.info("the signal on %s %s is not followed: %s", self.noun.kind, self._name, problem)
        return _PLAN_BACKOFF.after(failures)


def _program(
    settings: UpdateAgentSettings, own: OwnInstallation | None, api: Api
) -> tuple[ManagedProgram, ProgramFiles]:
    profile = settings.profile
    if profile.tree is not None:
        if own is None:
            raise ValueError("a profile with a tree is for an agent that is part of it")
        tree = InstalledTree(profile.tree)
        return OwnProgram(profile, tree, own, api), tree
    files = InstalledProgram(profile.path, profile.version)
    if profile.run:
        return SupervisedProgram(profile, settings.data / "program"), files
    return ManagedProgram(profile), files


def _signal_of(machine: Object | None) -> Signal | None:
    if machine is None:
        return None
    try:
        return read_signal(machine.annotations)
    except SignalError as problem:
        log.warning("the signal on %s %s is ignored: %s", machine.kind, machine.name, problem)
        return None


def _absent(noun: KindName, name: str) -> dict[str, Any]:
    """The object of this machine, while the API does not have it."""
    return {"apiVersion": noun.api_version, "kind": noun.kind, "metadata": {"name": name}}


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Hold the lock of the agent's folder. Raises DataInUse."""
    private_folder(folder)
    lock = folder / "lock"
    with open(os.open(lock, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600), "a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise DataInUse(f"another update agent uses {folder}: stop it first") from None
        yield
