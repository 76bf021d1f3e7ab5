"""Machines with signals, stepped by hand.

fleet = Fleet(drain={"timeout": "10m"})
w1 = fleet.worker("w1", step="Cordoning")
fleet.place("db-0", on="w1")
fleet.step(w1)
assert fleet.signal(w1).step == "ApplyingUpdate"
"""

from __future__ import annotations

from typing import Any

from tests.kit.controller_harness import ControllerHarness, Refused

from pilothouse.api.k0s.signals import Signal, SignalCommand, SignalUpdate, read_signal
from pilothouse.api.kind_names import ControlNode, Node, Plan, Pod
from pilothouse.api.objects import Object, Tree
from pilothouse.base.rfc3339 import format_time
from pilothouse.controllers.drains.drain_controller import drains
from pilothouse.controllers.drains.machine_turns import HOSTNAME, MODE
from pilothouse.runtime.intents import Intent

UPDATE = SignalUpdate("http://updates/k0s", "v1.31.2")


class Fleet(ControllerHarness):
    """A run of the plan ``autopilot``, and its machines."""

    def __init__(self, *, drain: Tree | None = None) -> None:
        super().__init__()
        rollout = {"drain": drain} if drain is not None else {}
        self.plan = self.add(
            {
                "apiVersion": Plan.api_version,
                "kind": Plan.kind,
                "metadata": {"name": "autopilot"},
                "spec": {"id": "id1", "commands": []},
                "status": {
                    "state": "Schedulable",
                    "runGeneration": 1,
                    "spec": {"commands": [], "rollout": rollout},
                    "commands": [{"id": 0, "k0supdate": {"controllers": [], "workers": []}}],
                },
            }
        )

    def worker(self, name: str, *, step: str = "Cordoning", cordoned: bool = False, **fields: Any) -> Object:
        return self.add(self._node(name, self._annotations(step, **fields), cordoned=cordoned))

    def node(self, name: str, *, cordoned: bool = False) -> Object:
        """Without a signal."""
        return self.add(self._node(name, {}, cordoned=cordoned))

    def control_node(self, name: str, mode: str, *, step: str = "Cordoning") -> Object:
        metadata: Tree = {
            "name": name,
            "labels": {HOSTNAME: name},
            "annotations": {MODE: mode, **self._annotations(step)},
        }
        return self.add({"apiVersion": ControlNode.api_version, "kind": "ControlNode", "metadata": metadata})

    def place(self, name: str, *, on: str, owner: str = "", phase: str = "Running", **labels: str) -> Object:
        metadata: Tree = {"name": name, "namespace": "default", "labels": labels}
        if owner:
            metadata["ownerReferences"] = [
                {"apiVersion": "apps/v1", "kind": owner, "name": "it", "uid": "u", "controller": True}
            ]
        conditions = [{"type": "Ready", "status": "True" if phase == "Running" else "False"}]
        return self.add(
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": metadata,
                "spec": {"nodeName": on},
                "status": {"phase": phase, "conditions": conditions},
            }
        )

    def budget(self, *, allowed: int, app: str, name: str = "") -> Object:
        status = {
            "observedGeneration": 1,
            "disruptionsAllowed": allowed,
            "desiredHealthy": 2,
            "currentHealthy": 2 + allowed,
        }
        return self.add(
            {
                "apiVersion": "policy/v1",
                "kind": "PodDisruptionBudget",
                "metadata": {"name": name or app},
                "spec": {"selector": {"matchLabels": {"app": app}}},
                "status": status,
            }
        )

    def step_of(self, machine: Object) -> list[Intent]:
        """Let the controller decide about a machine, and execute it."""
        return self.step(drains, machine)

    def decide_on(self, machine: Object) -> list[Intent]:
        return self.decide(drains, machine)

    def step_crashing(self, machine: Object, writes: int) -> None:
        """Decide, and execute so many writes of it."""
        self.step(drains, machine, crash_after=writes)

    def is_executed(self, intent: Intent) -> bool:
        """Execute one intent; False if the server refuses it."""
        try:
            self.execute(intent)
        except Refused:
            return False
        return True

    def kubelet(self) -> None:
        """Pods that are being deleted end."""
        for pod in self.all(Pod):
            if pod.deleting:
                self.remove(pod)

    def signal(self, machine: Object) -> Signal:
        found = self.get(machine.noun, machine.name)
        signal = read_signal(found.annotations) if found is not None else None
        assert signal is not None
        return signal

    def advance(self, machine: Object, step: str, reason: str = "") -> None:
        """What the machine's agent writes."""
        moved = self.signal(machine).advanced(step, format_time(self.now), reason).annotations()
        self.change(machine, lambda tree: tree["metadata"]["annotations"].update(moved))

    def signal_again(self, machine: Object, step: str) -> None:
        """The plan signals a machine for another turn, and it comes to a step."""
        again = self._annotations(step)
        self.change(machine, lambda tree: tree["metadata"]["annotations"].update(again))

    def cordoned(self, name: str) -> bool:
        node = self.get(Node, name)
        assert node is not None
        return bool(node.spec.get("unschedulable"))

    def ready(self, name: str, status: str) -> None:
        condition = {"type": "Ready", "status": status, "message": "the agent restarts"}
        node = self.get(Node, name)
        assert node is not None
        self.change(node, lambda tree: tree["status"].update(conditions=[condition]))

    def target(self, name: str, state: str, description: str = "", group: str = "workers") -> None:
        """What the plan records about a machine."""
        record = {"name": name, "state": state, "description": description}

        def write(tree: Tree) -> None:
            targets = tree["status"]["commands"][0]["k0supdate"]
            others = [each for each in targets[group] if each["name"] != name]
            targets[group] = sorted([*others, record], key=lambda each: each["name"])

        self.change(self.plan, write)

    def _annotations(self, step: str, *, plan_uid: str = "", generation: int = 1) -> dict[str, str]:
        command = SignalCommand(0, k0supdate=UPDATE)
        now = format_time(self.now)
        uid = plan_uid or self.plan.uid
        signal = Signal("id1", now, command, plan_uid=uid, generation=generation)
        return (signal.advanced(step, now) if step else signal).annotations()

    def _node(self, name: str, annotations: dict[str, str], *, cordoned: bool) -> Tree:
        return {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "labels": {HOSTNAME: name}, "annotations": annotations},
            "spec": {"unschedulable": True} if cordoned else {},
            "status": {"conditions": [{"type": "Ready", "status": "True"}]},
        }
