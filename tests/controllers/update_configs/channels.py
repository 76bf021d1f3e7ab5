"""An UpdateConfig stepped by hand: its controller decides, and the test answers for the channel.

followed = FollowedChannel(periodic())
followed.controller("c1", "v1.30.1+k0s.0")
followed.check(offer("v1.30.2+k0s.0"))       # decides, answers, decides
followed.plan, followed.reason
"""

from __future__ import annotations

import copy
from datetime import datetime
from typing import Any

from pilothouse.api.kind_names import ControlNode, Node, Plan, UpdateConfig
from pilothouse.api.objects import Object, Tree
from pilothouse.base.rfc3339 import format_time
from pilothouse.controllers.update_configs.update_config_controller import update_configs
from pilothouse.meta.conditions import find_condition
from pilothouse.runtime.intents import Apply, Intent, SetStatus
from pilothouse.runtime.snapshot import Snapshot, StaticView

TUESDAY_NOON = datetime.fromisoformat("2030-01-01T12:00:00Z").timestamp()
DAY = {"startTime": "00:00", "length": "24h"}


def periodic(name: str = "updates", window: Tree | None = None, **spec: Any) -> Tree:
    return config(name, {"type": "periodic", "periodic": window or DAY}, **spec)


def cron(schedule: Any = "@hourly", name: str = "updates", **spec: Any) -> Tree:
    return config(name, {"type": "cron", "cron": schedule}, **spec)


def config(name: str, strategy: Tree, **spec: Any) -> Tree:
    return {
        "apiVersion": UpdateConfig.api_version,
        "kind": "UpdateConfig",
        "metadata": {
            "name": name, "uid": f"u-{name}", "generation": 1, "creationTimestamp": format_time(TUESDAY_NOON),
        },
        "spec": {"channel": "stable", "updateServer": "https://x", "upgradeStrategy": strategy, **spec},
    }  # fmt: skip


def offer(version: str, *platforms: str, airgap: bool = False) -> Tree:
    downloads = [
        {
            "platform": platform,
            "k0s": {"url": f"https://x/{version}/{platform}", "sha256": "ab" * 32},
            **({"airgap": {"url": f"https://x/{version}/{platform}.tar"}} if airgap else {}),
        }
        for platform in platforms or ("linux-amd64",)
    ]
    return {"version": version, "downloads": downloads, "message": ""}


def nothing(message: str) -> Tree:
    return {"version": "", "downloads": [], "message": message}


class FollowedChannel:
    def __init__(self, *configs: Tree, now: float = TUESDAY_NOON) -> None:
        self.now = now
        self.configs = {one["metadata"]["name"]: one for one in configs}
        self.machines: dict[str, Tree] = {}
        self.plan: Tree | None = None
        self.applied = 0

    def controller(self, name: str, version: str, **labels: str) -> None:
        self.machines[f"c/{name}"] = {
            "apiVersion": ControlNode.api_version, "kind": "ControlNode", "metadata": {"name": name, "labels": labels},
            "status": {"k0sVersion": version},
        }  # fmt: skip

    def worker(self, name: str, kubelet: str, **labels: str) -> None:
        self.machines[f"w/{name}"] = {
            "apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels},
            "status": {"nodeInfo": {"kubeletVersion": kubelet}},
        }  # fmt: skip

    def decide(self, name: str = "") -> list[Intent]:
        """One decision, and its writes."""
        config = self.configs[name or min(self.configs)]
        intents = update_configs(Object.of(copy.deepcopy(config)), self._world())
        for intent in intents:
            if isinstance(intent, SetStatus):
                config["status"] = intent.status
            elif isinstance(intent, Apply):
                self._apply(intent.object)
        return intents

    def answer(self, answer: Tree, name: str = "") -> None:
        """What the observer writes."""
        status = self.configs[name or min(self.configs)]["status"]
        status["answer"] = {**answer, "number": status["check"], "time": format_time(self.now)}

    def check(self, answer: Tree) -> None:
        """A check that is due, its answer, and the decision on it."""
        before = self.checks
        self.decide()
        assert self.checks == before + 1, "no check was due"
        self.answer(answer)
        self.decide()

    def later(self, seconds: float) -> None:
        self.now += seconds

    def edit(self, name: str = "", **spec: Any) -> None:
        config = self.configs[name or min(self.configs)]
        config["spec"] |= spec
        config["metadata"]["generation"] += 1

    def ended(self, state: str, *, done: tuple[str, ...] = (), **status: Any) -> None:
        """The plan's run has ended."""
        assert self.plan is not None
        targets = [{"name": name, "state": "SignalCompleted"} for name in done]
        self.plan["status"] = {
            "state": state,
            "observedGeneration": self.plan["metadata"]["generation"],
            "spec": copy.deepcopy(self.plan["spec"]),
            "commands": [{"id": 0, "state": state, "k0supdate": {"controllers": targets, "workers": []}}],
            **(
                {}
                if state in ("", "SchedulableWait", "Schedulable")
                else {"completedTime": format_time(self.now)}
            ),
            **status,
        }

    @property
    def checks(self) -> int:
        return int((self.configs[min(self.configs)].get("status") or {}).get("check", 0))

    @property
    def status(self) -> Tree:
        return self.configs[min(self.configs)]["status"]  # type: ignore[no-any-return]

    @property
    def reason(self) -> str:
        return self.condition()[0]

    @property
    def message(self) -> str:
        return self.condition()[1]

    def condition(self, kind: str = "Progressing", name: str = "") -> tuple[str, str]:
        found = find_condition(self.configs[name or min(self.configs)]["status"]["conditions"], kind)
        assert found is not None
        return found["reason"], found["message"]

    @property
    def planned(self) -> str:
        """The version of the plan; empty without one."""
        return self.plan["spec"]["commands"][0]["k0supdate"]["version"] if self.plan else ""

    def _world(self) -> Snapshot:
        machines = list(self.machines.values())
        return Snapshot(
            {
                UpdateConfig: StaticView(copy.deepcopy(list(self.configs.values()))),
                Plan: StaticView([copy.deepcopy(self.plan)] if self.plan else []),
                ControlNode: StaticView([one for one in machines if one["kind"] == "ControlNode"]),
                Node: StaticView([one for one in machines if one["kind"] == "Node"]),
            },
            now=self.now,
        )

    def _apply(self, tree: Tree) -> None:
        self.applied += 1
        if self.plan is None:
            self.plan = {**tree, "metadata": {**tree["metadata"], "uid": "p", "generation": 1}, "status": {}}
        elif self.plan["spec"] != tree["spec"]:
            self.plan["spec"] = tree["spec"]
            self.plan["metadata"]["generation"] += 1
