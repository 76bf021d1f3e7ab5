"""What a pilot has to know of a database: a driver is a class with these few methods.

    class Driver:
        def hooks(self, phase, desired): return [Hook("Configure", ...)] if phase == "PreStart" else []
        def start(self, desired): return StartCommand(("mydb", str(self.file)), self.environ)
        async def observe(self, desired): ...

An entry point of the group ``pilothouse.drivers`` is a function from an ``InstanceEnvironment`` to the
driver; ``docs/pilots.md`` has a worked example. A driver keeps no state that matters, so that a pilot may be
restarted at any time.
"""

from __future__ import annotations

import signal
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Protocol

import msgspec

from pilothouse.api.navigator.configurations import configuration_hash, in_force
from pilothouse.api.objects import Object, Tree

Phase = Literal["PreStart", "PostStart", "PreStop", "PostStop"]


class HookNotReady(Exception):
    """A hook can't run yet, and nothing is wrong: it is retried soon."""


class HookFailed(Exception):
    """A hook failed; the message says why and what would help."""

    def __init__(self, message: str, status: Tree | None = None) -> None:
        """``status`` is merged into the application's section of the Pilot's status."""
        super().__init__(message)
        self.status: Tree = status or {}


class InstanceEnvironment(msgspec.Struct, frozen=True):
    """Where an instance runs."""

    name: str
    """The name of the pod and of the Pilot."""
    namespace: str
    address: str
    """The address that the database and the pilot listen on: pods on one machine may share its network."""
    folder: Path
    """The data folder."""
    environ: Mapping[str, str]


class DesiredState(msgspec.Struct, frozen=True):
    """What the Pilot's spec asks for, and whether this pilot leads its peers."""

    generation: int
    hash: str
    spec: Mapping[str, Any]
    leads: bool = False
    """This pilot is the leader of its cluster's pilots at this moment."""
    leader: str = ""
    """The name of the leader's Pilot; empty if it is not known."""
    uid: str = ""
    """The uid of the Pilot: the generations of one that was created again start at 1."""
    vouched: bool = True
    """False if another client than its cluster wrote the configuration: no reason to restart the database."""

    @classmethod
    def of(cls, pilot: Object, *, leads: bool = False, leader: str = "") -> DesiredState:
        digest = configuration_hash(pilot.spec)
        vouched = in_force(pilot.spec, pilot.annotations) == digest
        return cls(pilot.generation, digest, pilot.spec, leads, leader, pilot.uid, vouched)

    @property
    def decommission(self) -> bool:
        said = self.spec.get("decommission")
        return bool(said) if said is not None else self.spec.get("inService") is False

    @property
    def settings(self) -> Mapping[str, Any]:
        return (self.spec.get("configuration") or {}).get("settings") or {}

    @property
    def environment(self) -> Mapping[str, str]:
        return (self.spec.get("configuration") or {}).get("environment") or {}


class Hook(msgspec.Struct, frozen=True):
    """Something to do once in a phase. It may be retried, and must cope with what a failed attempt left."""

    name: str
    run: Callable[[], Awaitable[None]]


class StartCommand(msgspec.Struct, frozen=True):
    """How to start the database and ask it to stop."""

    argv: tuple[str, ...]
    environ: Mapping[str, str]
    folder: str = "/"
    stop_signal: int = signal.SIGTERM
    clean_codes: tuple[int, ...] = (0,)
    """Exit codes of a clean exit after that signal."""
    noise: tuple[str, ...] = ()
    """Substrings of lines that it writes whenever it exits, whatever the reason."""


class MetricValue(msgspec.Struct, frozen=True):
    """One sample for Prometheus."""

    name: str
    help: str
    value: float
    labels: Mapping[str, str] = {}
    kind: Literal["gauge", "counter"] = "gauge"


class Observation(msgspec.Struct, frozen=True):
    ready: bool
    message: str = ""
    """Why it is not ready."""
    answers: bool = True
    """False if nothing listens there: a database that has not been ready before counts as starting."""
    live: bool = True
    version: str = ""
    status: Tree = {}
    """The application's section of the Pilot's status."""
    left: str | None = None
    """What keeps a decommissioned instance from being empty; "" if it is and stays so, None if unchecked."""
    surplus: str = ""
    """What a decommissioned instance may be removed with: data of which complete copies are elsewhere."""
    writes_refused: str = ""
    """Why it refuses writes, and what would help; empty if it accepts them."""
    disk_headroom: bool = True
    """Whether much free space on its volume is enough, however small a part of the volume it is."""
    metrics: tuple[MetricValue, ...] = ()
    restart: str = ""
    """Why the database has to be restarted although its configuration is the same."""


class Driver(Protocol):
    application: str

    def hooks(self, phase: Phase, desired: DesiredState) -> Sequence[Hook]:
        """The hooks of a phase, in order; each runs once for every start of the database."""
        ...

    def start(self, desired: DesiredState) -> StartCommand:
        """How to start it, after the hooks of PreStart."""
        ...

    async def observe(self, desired: DesiredState) -> Observation:
        """The state of the database. Does not raise if it does not answer: it is not ready, then."""
        ...

    def is_candidate(self, desired: DesiredState) -> bool:
        """Whether this instance takes part in the leader election of its cluster's pilots."""
        ...

    async def lead(self, desired: DesiredState, peers: Sequence[Object], leads: Callable[[], bool]) -> Tree:
        """As the leader, do what is done once for the whole cluster, whose Pilots are ``peers``. Returns the
        facts about it, for ``cluster`` in the application's section of the status. Raises ``HookFailed``.

        Call ``leads`` before each action: another pilot may lead by then, and databases check no leases."""
        ...
