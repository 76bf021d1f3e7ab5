"""What a pilot has to know of a database. A driver of a new one is a class with these few methods.

    class Driver:
        def hooks(self, phase, wish): return [Hook("WriteConfiguration", ...)] if phase == "PreStart" else []
        def start(self, wish): return StartCommand(("redis-server", str(self.file)), ...)
        async def observe(self, wish): ...

It is registered as an entry point of the group ``pilothouse.drivers``, whose value is a function from a ``InstanceEnvironment`` to the driver;
``docs/pilots.md`` has a worked example. A driver keeps no state that matters: all it needs comes with each call, so that it does not matter
which process of a pilot it lives in.
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
    """A hook can't be done yet, and nothing is wrong: it is tried again soon."""


class HookFailed(Exception):
    """A hook could not be done; the message says why and what would help."""

    def __init__(self, message: str, status: Tree | None = None) -> None:
        """``status`` goes into the application's part of the Pilot's status."""
        super().__init__(message)
        self.status: Tree = status or {}


class InstanceEnvironment(msgspec.Struct, frozen=True):
    """Where an instance lives."""

    name: str
    """Of the pod, and so of the Pilot."""
    namespace: str
    address: str
    """At which the database and the pilot listen: pods on one machine may share its network."""
    folder: Path
    """The volume of its data."""
    environ: Mapping[str, str]


class DesiredState(msgspec.Struct, frozen=True):
    """What the Pilot says, and where this instance stands among its peers."""

    generation: int
    hash: str
    spec: Mapping[str, Any]
    leads: bool = False
    """This pilot is its cluster's leader at this moment."""
    leader: str = ""
    """Who leads, as far as is known."""
    uid: str = ""
    """Of the Pilot: one that was made again counts its generations anew."""
    vouched: bool = True
    """It is what the Pilot's cluster has written, if it is a cluster's: else a database that runs is not restarted for it."""

    @classmethod
    def of(cls, pilot: Object, *, leads: bool = False, leader: str = "") -> DesiredState:
        digest = configuration_hash(pilot.spec)
        vouched = in_force(pilot.spec, pilot.annotations) == digest
        return cls(pilot.generation, digest, pilot.spec, leads, leader, pilot.uid, vouched)

    @property
    def decommission(self) -> bool:
        """Whether the instance should give its data away."""
        said = self.spec.get("decommission")
        return bool(said) if said is not None else self.spec.get("inService") is False

    @property
    def settings(self) -> Mapping[str, Any]:
        return (self.spec.get("configuration") or {}).get("settings") or {}

    @property
    def environment(self) -> Mapping[str, str]:
        return (self.spec.get("configuration") or {}).get("environment") or {}


class Hook(msgspec.Struct, frozen=True):
    """Something to be done once in a phase. It may be tried again, so a half-done one must not be in the way."""

    name: str
    run: Callable[[], Awaitable[None]]


class StartCommand(msgspec.Struct, frozen=True):
    """How the database is started and asked to stop."""

    argv: tuple[str, ...]
    environ: Mapping[str, str]
    folder: str = "/"
    stop_signal: int = signal.SIGTERM
    clean_codes: tuple[int, ...] = (0,)
    """Exit codes of an orderly end after that signal."""
    noise: tuple[str, ...] = ()
    """Parts of the lines that it writes at its end whatever the reason is."""


class MetricValue(msgspec.Struct, frozen=True):
    """One value for Prometheus."""

    name: str
    help: str
    value: float
    labels: Mapping[str, str] = {}
    kind: Literal["gauge", "counter"] = "gauge"


class Observation(msgspec.Struct, frozen=True):
    """How the database is."""

    ready: bool
    message: str = ""
    """Why it is not ready."""
    answers: bool = True
    """False if nothing listens there: a database that has not been ready yet is starting, then."""
    live: bool = True
    version: str = ""
    status: Tree = {}
    """What goes into the part of the Pilot's status that is this application's own."""
    left: str | None = None
    """What keeps a decommissioned instance from being empty; "" if nothing is left, and nothing comes; None if nobody looked."""
    surplus: str = ""
    """What a decommissioned instance still holds though nothing is left to wait for: copies that are whole elsewhere."""
    writes_refused: str = ""
    """Why it takes no writes, and what would help; empty if it takes them."""
    figures: tuple[MetricValue, ...] = ()
    restart: str = ""
    """Why the database has to be started anew although its configuration is the same."""


class Driver(Protocol):
    """Knows one kind of database."""

    application: str

    def hooks(self, phase: Phase, wish: DesiredState) -> Sequence[Hook]:
        """What is to be done in a phase, in order; each once for every start of the database."""
        ...

    def start(self, wish: DesiredState) -> StartCommand:
        """How to start it, once the hooks of PreStart are done."""
        ...

    async def observe(self, wish: DesiredState) -> Observation:
        """How it is. Never raises for a database that does not answer: it is not ready, then."""
        ...

    def stands(self, wish: DesiredState) -> bool:
        """Whether this instance takes part in choosing who leads the pilots of its cluster."""
        ...

    async def lead(self, wish: DesiredState, peers: Sequence[Object], leads: Callable[[], bool]) -> Tree:
        """Do what is to be done once for the whole cluster, whose Pilots are ``peers``. What is known of the
        whole: for the application's part of the status, under ``cluster``. Raises ``HookFailed``.

        No database knows of leases: ``leads`` is asked before each act, since another may have come to lead meanwhile."""
        ...
