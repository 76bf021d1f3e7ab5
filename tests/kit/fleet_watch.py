"""What happens to a fleet while a plan updates it, seen by watches of its own and by asking its programs.

with FleetWatch(fleet) as watch:
    fleet.apply(plan)
    watch.at(lambda view: view.step("controller0") == "Downloading", kill)     # returns when it was killed
    ...
watch.turns("controller0")            # its signals, each with the steps that it went through
watch.away_together()                 # the moments at which two control hosts did not answer

The watches resume where they were when the API server is killed: they miss nothing, or fail.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
import threading
import time
import urllib.request
from collections.abc import Callable
from itertools import combinations
from types import TracebackType
from typing import Any, NamedTuple

from tests.kit.update_fleet import GROUP, UpdateFleet

from pilothouse.api.k0s.signals import Signal, read_signal

Json = dict[str, Any]
PATHS = {"plans": f"{GROUP}/plans", "controlnodes": f"{GROUP}/controlnodes", "nodes": "/api/v1/nodes"}
_PROBE_PAUSE = 0.1


class Turn(NamedTuple):
    """One signal that a machine got, and the steps that it went through."""

    plan: str
    generation: int
    command: int
    kind: str
    created: str
    steps: tuple[str, ...]


class Probe(NamedTuple):
    """When a control host was asked whether it is ready, and whether it was."""

    time: float
    ready: bool


class FleetView:
    """The latest known state of the plan and the machines."""

    def __init__(self) -> None:
        self.objects: dict[tuple[str, str], Json] = {}

    @property
    def status(self) -> Json:
        plan = self.objects.get(("plans", "autopilot"))
        return dict((plan or {}).get("status") or {})

    def signal(self, machine: str) -> Signal | None:
        """The signal of the plan's run on this machine."""
        plan = self.objects.get(("plans", "autopilot"))
        for plural in ("controlnodes", "nodes"):
            found = _signal_on(self.objects.get((plural, machine)))
            if found is not None and plan is not None and found.plan_uid == plan["metadata"]["uid"]:
                return found
        return None

    def step(self, machine: str) -> str | None:
        """How far its turn is; None without one."""
        found = self.signal(machine)
        return found.step if found is not None else None

    def state(self, machine: str) -> str:
        """How the plan counts a machine; empty if it does not."""
        for command in self.status.get("commands") or ():
            for part in ("controllers", "workers"):
                for target in (command.get("k0supdate") or {}).get(part) or ():
                    if target["name"] == machine:
                        return str(target["state"])
        return ""


class FleetWatch:
    def __init__(self, fleet: UpdateFleet) -> None:
        self.view = FleetView()
        """As far as ``at`` has got."""
        self.events: list[tuple[str, Json]] = []
        """Every version of every object, by its resource."""
        self.probes: dict[str, list[Probe]] = {machine.name: [] for machine in fleet.controllers}
        self._fleet = fleet
        self._lock = threading.RLock()
        self._armed: tuple[Callable[[FleetView], bool], Callable[[], None], threading.Event] | None = None
        self._position = 0
        self._listed: list[tuple[str, Json]] = []
        self._ended = threading.Event()
        self._problems: list[str] = []
        self._threads: list[threading.Thread] = []

    def __enter__(self) -> FleetWatch:
        versions = {plural: self._list(plural) for plural in PATHS}
        work: list[tuple[Callable[..., None], tuple[Any, ...]]] = [
            (self._follow, (plural, version)) for plural, version in versions.items()
        ]
        work += [(self._ask, (each.name, each.address, each.port)) for each in self._fleet.controllers]
        for what, arguments in work:
            thread = threading.Thread(target=what, args=arguments, daemon=True)
            thread.start()
            self._threads.append(thread)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        for thread in self._threads:
            thread.join(10)

    def at(self, reached: Callable[[FleetView], bool], act: Callable[[], None], seconds: float = 300) -> None:
        """Act at the moment when the view is as asked for, in the thread that sees it. If that moment has passed
        since the last one, act at once."""
        done = threading.Event()
        with self._lock:
            self._armed = (reached, act, done)
            self._fire()
        if not done.wait(seconds):
            raise AssertionError(f"waited {seconds} s; {self.view.status}")
        assert not self._problems, self._problems

    def caught_up(self) -> None:
        """Wait until everything that has happened is seen."""
        missing = {
            (plural, each["metadata"]["name"], each["metadata"]["resourceVersion"])
            for plural, path in PATHS.items()
            for each in self._fleet.send("GET", path)["items"]
        }
        self._fleet.wait(lambda: missing <= self._versions, "the watches to catch up")
        assert not self._problems, self._problems

    @property
    def _versions(self) -> set[tuple[str, str, str]]:
        return {
            (plural, tree["metadata"]["name"], tree["metadata"]["resourceVersion"])
            for plural, tree in [*self._listed, *self.events]
        }

    def turns(self, machine: str) -> list[Turn]:
        """The signals of a machine in the order of its watch. A step that comes again after another one, and a
        signal that is taken back and given again, show as such."""
        found: list[tuple[tuple[str, int, int, str, str], list[str]]] = []
        for plural, tree in self.events:
            if tree["metadata"]["name"] != machine or plural == "plans":
                continue
            signal = _signal_on(tree)
            if signal is None:
                continue
            kind = "k0supdate" if signal.command.k0supdate is not None else "airgapupdate"
            key = (signal.plan_uid, signal.generation, signal.command.id, kind, signal.created)
            if not found or found[-1][0] != key or (not signal.step and found[-1][1][-1]):
                found.append((key, []))
            steps = found[-1][1]
            if not steps or steps[-1] != signal.step:
                steps.append(signal.step)
        return [Turn(*key, tuple(steps)) for key, steps in found]

    def away_together(self) -> list[str]:
        """Control hosts of which two were away at one moment. Of one of them that moment lies between two
        probes in a row that failed, so that it can't have been ready in between but for an instant."""
        return [
            f"{one} and {other} at {probe.time}"
            for pair in combinations(self.probes, 2)
            for one, other in (pair, pair[::-1])
            for before, after in zip(self.probes[one], self.probes[one][1:], strict=False)
            if not before.ready and not after.ready
            for probe in self.probes[other]
            if not probe.ready and before.time < probe.time < after.time
        ]

    def _list(self, plural: str) -> str:
        found = self._fleet.send("GET", PATHS[plural])
        for each in found["items"]:
            self._listed.append((plural, each))
            self.view.objects[plural, each["metadata"]["name"]] = each
        return str(found["metadata"]["resourceVersion"])

    def _follow(self, plural: str, version: str) -> None:
        target = self._fleet.server.target
        context = target.trust()
        while not self._ended.is_set():
            url = f"{target.url}{PATHS[plural]}?watch=1&timeoutSeconds=60&resourceVersion={version}"
            try:
                with urllib.request.urlopen(url, context=context, timeout=2) as stream:
                    for line in stream:
                        event = json.loads(line)
                        if event["type"] == "ERROR":
                            self._problems.append(f"the watch of {plural} missed something: {event}")
                            return
                        version = event["object"]["metadata"]["resourceVersion"]
                        self._see(plural, event)
                        if self._ended.is_set():
                            return
            except (OSError, http.client.HTTPException, json.JSONDecodeError):
                # Nothing for a while, or the server was killed; in the middle of a line, perhaps.
                time.sleep(0.02)

    def _see(self, plural: str, event: Json) -> None:
        tree = event["object"]
        with self._lock:
            self.events.append((plural, tree))
            self._fire()

    def _fire(self) -> None:
        while self._armed is not None and not self._fired(*self._armed):
            if self._position == len(self.events):
                return
            plural, tree = self.events[self._position]
            self.view.objects[plural, tree["metadata"]["name"]] = tree
            self._position += 1

    def _fired(
        self, reached: Callable[[FleetView], bool], act: Callable[[], None], done: threading.Event
    ) -> bool:
        if not reached(self.view):
            return False
        self._armed = None
        try:
            act()
        except Exception as problem:
            self._problems.append(repr(problem))
            raise
        finally:
            done.set()
        return True

    def _ask(self, name: str, address: str, port: int) -> None:
        while not self._ended.is_set():
            moment = time.monotonic()
            self.probes[name].append(Probe(moment, _is_ready(address, port)))
            time.sleep(_PROBE_PAUSE)


def _is_ready(address: str, port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection((address, port), 2) as connection:
        connection.sendall(b"GET /readyz HTTP/1.1\r\n\r\n")
        return connection.recv(64).startswith(b"HTTP/1.1 200")
    return False


def _signal_on(tree: Json | None) -> Signal | None:
    return read_signal(tree["metadata"].get("annotations") or {}) if tree is not None else None
