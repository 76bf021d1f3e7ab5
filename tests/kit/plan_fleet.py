"""Control hosts and workers in memory, stepped by hand through a Plan.

    fleet = PlanFleet(controllers=3, workers=2)         # c0, c1, c2, w0, w1
    fleet.add_plan(update(controllers=EVERY, workers=EVERY))
    fleet.step_once()                   # one decision of the controller, executed
    fleet.answer()                      # the observer answers, from what the fleet is set to
    fleet.advance("w0")                 # the agent of a machine, or the drain, takes the next step
    fleet.run()                         # all of them, until the plan has ended

The agents and the drain are models: they move a signal along its chain. ``peak`` is the largest number of
machines that were in progress at once, ``order`` the machines in the order of their signals.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tests.kit.controller_harness import ControllerHarness

from pilothouse.api.k0s.signals import STEPS, Signal, read_signal
from pilothouse.api.kind_names import ControlNode, Node, Plan
from pilothouse.api.objects import Object, Tree
from pilothouse.base.rfc3339 import format_time
from pilothouse.controllers.plans.plan_controller import plans
from pilothouse.runtime.intents import Intent, PatchObject, RecordEvent, RequeueAfter

OLD, NEW = "v1.30.0+k0s.0", "v1.31.0+k0s.0"
EVERY: Tree = {"selector": {}}
PLATFORMS = {"linux-amd64": {"url": "http://updates.example/k0s", "sha256": "0" * 64}}
_MOST_STEPS = 2000


def static(*names: str) -> Tree:
    return {"static": {"nodes": list(names)}}


def target(discovery: Tree, concurrent: int | str | None = None) -> Tree:
    limits = {} if concurrent is None else {"limits": {"concurrent": concurrent}}
    return {"discovery": discovery, **limits}


def update(
    *,
    controllers: Tree | None = None,
    workers: Tree | None = None,
    concurrent: int | str | None = None,
    version: str = NEW,
    **more: Any,
) -> Tree:
    """A k0supdate command."""
    targets = {}
    if controllers is not None:
        targets["controllers"] = target(controllers)
    if workers is not None:
        targets["workers"] = target(workers, concurrent)
    return {"k0supdate": {"version": version, "platforms": PLATFORMS, "targets": targets, **more}}


def bundle(workers: Tree, *, version: str = NEW) -> Tree:
    """An airgapupdate command."""
    return {"airgapupdate": {"version": version, "platforms": PLATFORMS, "workers": target(workers)}}


def control_node(name: str, *, version: str = OLD, arch: str = "amd64") -> Tree:
    labels = {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "kubernetes.io/arch": arch}
    return {
        "apiVersion": ControlNode.api_version,
        "kind": "ControlNode",
        "metadata": {"name": name, "labels": labels},
        "status": {"k0sVersion": version},
    }


def node(name: str, *, arch: str = "amd64", **labels: str) -> Tree:
    platform = {"kubernetes.io/os": "linux", "kubernetes.io/arch": arch}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {**platform, **labels}},
        "spec": {},
        "status": {
            "conditions": [{"type": "Ready", "status": "True"}],
            "nodeInfo": {"kubeletVersion": OLD},
        },
    }


class PlanFleet(ControllerHarness):
    """ControlNodes ``c0``, ``c1``, … and Nodes ``w0``, ``w1``, …; all ready, all of the old version."""

    def __init__(
        self, *, controllers: int = 0, workers: int = 0, exclude: Iterable[str] = (), now: float = 1_000_000.0
    ) -> None:
        super().__init__(now=now)
        for number in range(controllers):
            self.add(control_node(f"c{number}"))
        for number in range(workers):
            self.add(node(f"w{number}"))
        self.controller = plans(frozenset(exclude))
        self.not_ready: dict[str, str] = {}
        """ControlNodes that answer that they are not ready, and with what."""
        self.shut: dict[str, str] = {}
        """Gates that are shut, and why."""
        self.removed: dict[str, str] = {}
        """Versions that would lose objects, and which."""
        self.broken: dict[str, tuple[str, str]] = {}
        """Machines that end with a step and a reason."""
        self.silent: set[str] = set()
        """Machines whose agents do nothing."""
        self.order: list[str] = []
        self.peak = 0
        self.events: list[tuple[str, str]] = []
        self.intents: list[Intent] = []
        self.seen_states: list[str] = []

    def add_plan(self, *commands: Tree, name: str = "autopilot", **rollout: Any) -> Object:
        spec: Tree = {"id": "id123", "commands": list(commands)}
        if rollout:
            spec["rollout"] = rollout
        return self.add(
            {"apiVersion": Plan.api_version, "kind": "Plan", "metadata": {"name": name}, "spec": spec}
        )

    @property
    def plan(self) -> Object:
        found = self.get(Plan, "autopilot")
        assert found is not None
        return found

    @property
    def plan_status(self) -> Tree:
        return self.status(self.plan)

    @property
    def state(self) -> str:
        return str(self.plan_status.get("state", ""))

    @property
    def ended(self) -> bool:
        return "completedTime" in self.plan_status

    def targets(self, part: str = "workers", command: int = 0, key: str = "k0supdate") -> dict[str, Tree]:
        found = self.plan_status["commands"][command].get(key, {}).get(part, [])
        return {each["name"]: each for each in found}

    def states(self, part: str = "workers", command: int = 0, key: str = "k0supdate") -> dict[str, str]:
        return {name: each["state"] for name, each in self.targets(part, command, key).items()}

    def condition(self, kind: str) -> tuple[str, str, str]:
        [found] = [each for each in self.plan_status["conditions"] if each["type"] == kind]
        return found["status"], found["reason"], found.get("message", "")

    def roll(self, **changes: Any) -> None:
        """Edit ``spec.rollout``."""
        self.change(self.plan, lambda tree: tree["spec"].setdefault("rollout", {}).update(changes))

    def machine(self, name: str) -> Object:
        """The object that carries a machine's signal: its ControlNode, or else its Node."""
        found = self.get(ControlNode, name) or self.get(Node, name)
        assert found is not None, f"there is no machine {name}"
        return found

    def signal(self, one: Object | str) -> Signal | None:
        machine = self.machine(one) if isinstance(one, str) else one
        return read_signal(machine.annotations)

    def step_once(self, *, crash_after: int | None = None) -> list[Intent]:
        """One decision of the plan controller, executed."""
        self.intents = self.step(self.controller, self.plan, crash_after=crash_after)
        for intent in self.intents:
            if isinstance(intent, PatchObject):
                self.order.append(intent.seen.name)
            if isinstance(intent, RecordEvent):
                self.events.append((intent.event, intent.because))
        if not self.seen_states or self.seen_states[-1] != self.state:
            self.seen_states.append(self.state)
        self.peak = max(self.peak, len(self.in_progress))
        return self.intents

    @property
    def in_progress(self) -> list[str]:
        return [
            each["name"]
            for command in self.plan_status.get("commands", [])
            for update in (command.get("k0supdate", {}), command.get("airgapupdate", {}))
            for targets in update.values()
            for each in targets
            if each["state"] == "SignalSent"
        ]

    def answer(self) -> bool:
        """The observer answers the open question. False if there is none."""
        status = self.plan_status
        asked, answers = status.get("questions"), status.get("answers", {})
        if asked is None or answers.get("number") == asked["number"]:
            return False
        found: Tree = {"number": asked["number"], "time": format_time(self.now)}
        if asked.get("readiness"):
            found["readiness"] = [
                {
                    "name": name,
                    "ready": name not in self.not_ready,
                    "message": self.not_ready.get(name, "200"),
                }
                for name in self.names(ControlNode)
            ]
        if asked.get("removedApis"):
            found["removedApis"] = [
                {"version": version, "message": self.removed.get(version, "")}
                for version in asked["removedApis"]
            ]
        if asked.get("gates"):
            names = [each["name"] for each in self.plan["status"]["spec"]["rollout"]["gates"]]
            found["gates"] = [
                {"name": name, "open": name not in self.shut, "message": self.shut.get(name, "")}
                for name in names
            ]
        self.change(self.plan, lambda tree: tree["status"].update(answers=found))
        return True

    def advance(self, one: Object | str, step: str = "", reason: str = "") -> bool:
        """Move a machine's signal: to a step, or to the next one. False if there is nothing to do."""
        machine = self.machine(one) if isinstance(one, str) else one
        signal = self.signal(machine)
        if signal is None or signal.ended:
            return False
        if not step and machine.name in self.broken:
            step, reason = self.broken[machine.name]
        if not step and signal.command.airgapupdate is not None:
            step = "Completed" if signal.step else "Downloading"
        step = step or STEPS[STEPS.index(signal.step) + 1 if signal.step else 0]
        moved = signal.advanced(step, format_time(self.now), reason)
        update = signal.command.k0supdate

        def move(tree: Tree) -> None:
            tree["metadata"]["annotations"].update(moved.annotations())
            if step == "Completed" and update is not None:
                version = OLD if signal.rollback else update.version
                if tree["kind"] == "ControlNode":
                    tree["status"]["k0sVersion"] = version
                else:
                    tree["status"]["nodeInfo"]["kubeletVersion"] = version

        self.change(machine, move)
        return True

    def advance_all(self) -> bool:
        moved = [
            self.advance(machine)
            for machine in (*self.all(ControlNode), *self.all(Node))
            if machine.name not in self.silent
        ]
        return any(moved)

    def set_node(self, name: str, *, ready: bool | None = None, cordoned: bool | None = None) -> None:
        found = self.get(Node, name)
        assert found is not None

        def edit(tree: Tree) -> None:
            if ready is not None:
                tree["status"]["conditions"] = [
                    {
                        "type": "Ready",
                        "status": "True" if ready else "False",
                        "lastTransitionTime": format_time(self.now),
                    }
                ]
            if cordoned is not None:
                tree["spec"]["unschedulable"] = cordoned

        self.change(found, edit)

    def until_started(self) -> None:
        """Until the targets are found."""
        for _ in range(4):
            self.step_once()
            self.answer()
            if self.state in ("SchedulableWait", "Schedulable") or self.ended:
                return
        raise AssertionError(f"it has not started: {self.plan_status}")

    def settle_decisions(self) -> None:
        """Decide and answer until nothing changes, while no machine moves."""
        for _ in range(50):
            version = self.version
            self.step_once()
            self.answer()
            if self.version == version:
                return
        raise AssertionError(f"it does not settle: {self.intents}")

    def run(self) -> Tree:
        """Everyone takes steps until the plan has ended; returns its status."""
        for _ in range(_MOST_STEPS):
            version = self.version
            self.step_once()
            if self.ended and self.version == version:
                return self.plan_status
            self.answer()
            self.advance_all()
            if self.version == version:
                later = [each.seconds for each in self.intents if isinstance(each, RequeueAfter)]
                assert later, f"it waits without a time to look again: {self.intents}"
                self.now += min(later)
        raise AssertionError(f"no end after {_MOST_STEPS} steps: {self.intents}")
