"""``pilothouse rule explain`` as a user runs it: against a real server, with a manager whose metrics stay the same."""

from __future__ import annotations

import asyncio
import json
import random
import re
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from threading import Event, Thread

import pytest
from tests.cli.running import PATIENCE, Server, pilothouse

from pilothouse.api.kind_names import (
    ApplicationPolicy,
    AutopilotRule,
    AutopilotRuleObject,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttributesClass,
)
from pilothouse.api.local_volumes import PROVISIONED_BY
from pilothouse.api.objects import Tree
from pilothouse.base.clock import SystemClock
from pilothouse.client.api import Api
from pilothouse.client.http_transport import HttpTransport
from pilothouse.client.kubeconfig import load
from pilothouse.client.shared_informers import SharedInformers
from pilothouse.controllers.application_policies import application_policies
from pilothouse.rules.rule_controllers import rule_controllers
from pilothouse.rules.rule_queries import VOLUME_INFO
from pilothouse.rules.samples import Answer, Sample
from pilothouse.runtime.election import NoElection
from pilothouse.runtime.manager import Manager
from pilothouse.sim.metered_volumes import ModelledProvider

USAGE = {"data-0": 62.5, "data-1": 20.0, "orders": 96.0}
POLICY: Tree = {
    "apiVersion": ApplicationPolicy.api_version,
    "kind": ApplicationPolicy.kind,
    "metadata": {"name": "shop"},
    "spec": {
        "application": "postgres",
        "selector": {"matchLabels": {"app": "orders"}},
        "policies": [{"name": "slow-volume"}, {"name": "time-to-full"}],
    },
}
RULE: Tree = {
    "apiVersion": AutopilotRule.api_version,
    "kind": AutopilotRule.kind,
    "metadata": {"name": "grow"},
    "spec": {
        "selector": {"matchLabels": {"app": "db"}},
        "conditions": {
            "for": 3600,
            "expressions": [{"keyAlias": "VolumeUsagePercent", "operator": "Gt", "values": ["50"]}],
        },
        "actions": [{"name": "openstorage.io.action.volume/resize"}],
    },
}
QUESTIONS = "/apis/pilothouse.io/v1alpha1/questions"


def claim(name: str, app: str = "db") -> Tree:
    return {
        "metadata": {"name": name, "namespace": "default", "labels": {"app": app}},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "fast",
            "volumeName": f"pv-{name}",
            "resources": {"requests": {"storage": "320Mi"}},
        },
    }


class SteadyUsage:
    """Volumes are always as full, and the disk below one of them as busy."""

    def get(self, name: str) -> ModelledProvider:
        return ModelledProvider(self)

    async def query(self, expressions: Sequence[str], now: float) -> Mapping[str, Answer]:
        named = [
            Sample({"namespace": "default", "persistentvolumeclaim": name}, value, now)
            for name, value in USAGE.items()
        ]
        orders = {"namespace": "default", "persistentvolumeclaim": "orders", "volumename": "pv-orders"}
        info = Sample({**orders, "device": "loop3", "disk": "nvme0n1", "node": "n1"}, 1.0, now)
        busy = Sample({"device": "nvme0n1", "node": "n1"}, 12.5, now)
        return {
            each: [info] if each == VOLUME_INFO else [busy] if "io_time" in each else named
            for each in expressions
        }


@asynccontextmanager
async def reached(server: Server) -> AsyncIterator[Api]:
    async with HttpTransport.open(load(server.kubeconfig), SystemClock(), agent="test") as transport:
        yield Api(transport, random.Random(1), manager="test")


async def fill(api: Api) -> None:
    fast = {"metadata": {"name": "fast"}, "provisioner": "example.com/m", "allowVolumeExpansion": True}
    await api.create(StorageClass, fast)
    driver = "pilothouse.io/loop"
    silver = {"metadata": {"name": "silver"}, "driverName": driver, "parameters": {"iops": "500"}}
    await api.create(VolumeAttributesClass, silver)
    volume = {
        "metadata": {"name": "pv-orders", "annotations": {PROVISIONED_BY: driver}},
        "spec": {
            "capacity": {"storage": "320Mi"},
            "accessModes": ["ReadWriteOnce"],
            "hostPath": {"path": "/srv/orders"},
        },
    }
    await api.create(PersistentVolume, volume)
    orders = claim("orders", "orders")
    orders["spec"]["volumeAttributesClassName"] = "silver"
    for tree in (claim("data-0"), claim("data-1"), claim("logs", "web"), orders):
        created = await api.create(PersistentVolumeClaim, tree)
        status: Tree = {"phase": "Bound", "capacity": {"storage": "320Mi"}}
        if asked := tree["spec"].get("volumeAttributesClassName"):
            status["currentVolumeAttributesClassName"] = asked
        bound = {"status": status}
        await api.patch(PersistentVolumeClaim, created.name, "default", bound, subresource="status")
    await api.create(AutopilotRule, RULE)
    await api.create(ApplicationPolicy, POLICY)


async def manage(server: Server, ready: Event, ended: Event) -> None:
    """Run a manager of rules until ``ended``; ``ready`` is set once it has looked at all objects."""
    async with reached(server) as api:
        informers = SharedInformers(api, random.Random(1), SystemClock())
        controllers = (application_policies, *rule_controllers(SteadyUsage()))
        manager = Manager(api, controllers, informers, NoElection(), SystemClock(), identity="m1")
        running = asyncio.ensure_future(manager.run())
        while not ended.is_set():
            found = (await api.list(AutopilotRuleObject, "default")).objects
            looked_at = {(one.labels.get("rule"), one.status.get("state")) for one in found}
            if looked_at >= {("grow", "Normal"), ("grow", "Triggered"), ("shop-slow-volume", "Triggered")}:
                ready.set()
            await asyncio.sleep(0.1)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


@contextmanager
def managed(server: Server) -> Iterator[None]:
    ready, ended = Event(), Event()
    thread = Thread(target=lambda: asyncio.run(manage(server, ready, ended)))
    thread.start()
    try:
        assert ready.wait(PATIENCE)
        yield
    finally:
        ended.set()
        thread.join(PATIENCE)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with Server(tmp_path_factory.mktemp("plane")) as running:

        async def create() -> None:
            async with reached(running) as api:
                await fill(api)

        asyncio.run(create())
        yield running


def run(server: Server, *args: str) -> tuple[int, str, str]:
    done = pilothouse("rule", "explain", *args, "--kubeconfig", str(server.kubeconfig))
    return done.returncode, done.stdout, done.stderr


def left(server: Server) -> list[object]:
    return list(json.loads(server.get(QUESTIONS).body)["items"])


def test_without_a_manager_it_says_who_has_to_answer(server: Server) -> None:
    code, _, error = run(server, "grow", "data-0", "--timeout", "0.5")
    assert code == 1
    assert "no controller-manager has answered for 0.5 seconds" in error
    code, _, error = run(server, "grow")
    assert code == 1
    assert "rule grow has no objects: the condition Ready" in error
    code, _, error = run(server, "shrink", "data-0")
    assert code == 1
    assert '"shrink" not found' in error
    assert left(server) == []


def test_objects_and_what_they_wait_for(server: Server) -> None:
    with managed(server):
        code, text, _ = run(server, "grow", "data-0")
        assert code == 0
        lines = text.splitlines()
        assert lines[0] == "rule grow: default/data-0, volume pv-data-0"
        assert lines[2].split()[:4] == ["VolumeUsagePercent", "62.5", "Gt", "50"]
        assert lines[3] == "conditions: met"
        assert lines[4].startswith("state:      Triggered for ")
        assert lines[5].startswith("waits for:  conditions have to hold for 3600 seconds, ")
        assert lines[5].endswith(" left")
        assert lines[6] == "would do:   volume/resize from 320Mi to 480Mi"

        code, text, _ = run(server, "grow", "data-1")
        assert code == 0
        lines = text.splitlines()
        assert lines[3] == "conditions: not met"
        assert lines[6] == "once met:   volume/resize from 320Mi to 480Mi"

        code, text, _ = run(server, "grow")
        assert code == 0
        header, *rows = text.splitlines()
        assert header.split() == ["OBJECT", "VALUES", "AGE", "CONDITIONS", "STATE", "WAITS", "FOR"]
        assert [row.split()[:2] for row in rows] == [["default/data-0", "62.5"], ["default/data-1", "20"]]
        assert " met " in rows[0]
        assert rows[1].split()[-3:] == ["not", "met", "Normal"]

        code, text, _ = run(server, "grow", "-n", "default", "-o", "json")
        (found,) = json.loads(text)
        assert code == 0
        assert found["namespace"] == "default"
        assert [one["conditions"] for one in found["objects"]] == ["Met", "NotMet"]

        code, _, error = run(server, "grow", "logs")
        assert (code, error) == (1, "no AutopilotRule selects the PersistentVolumeClaim logs\n")
        assert left(server) == []


def test_the_rules_of_a_policy_and_the_tree_of_its_candidates(server: Server) -> None:
    with managed(server):
        code, text, error = run(server, "shop", "orders")
        assert (code, error) == (0, "")
        assert [line for line in text.splitlines() if line.startswith("rule ")] == [
            "rule shop-slow-volume: default/orders, volume pv-orders",
            "rule shop-time-to-full: default/orders, volume pv-orders",
        ]
        tree = text.splitlines()[5:14]
        assert tree[0] == "candidate reads-at-the-limit: holds, chosen"
        assert re.fullmatch(r"├─ volume default/orders: 100 .*\.\.\. is 96 \(GtEq 90\): holds", tree[1])
        assert re.fullmatch(r"└─ device n1/nvme0n1: 100 .*\.\.\. is 12\.5 \(Lt 50\): holds", tree[2])
        assert tree[3] == "candidate writes-at-the-limit: holds"
        assert tree[6] == "candidate disk-busy-with-others: does not hold"
        assert tree[7].endswith(" is 12.5 (GtEq 80): does not hold")
        assert tree[8].startswith("└─ device")
        assert "would do:   volume/setiops from 500 IOPS to 750 IOPS class autopilot-" in text
        code, text, _ = run(server, "shop")
        assert code == 0
        assert {" ".join(row.split()[:3]) for row in text.splitlines()[1:]} == {
            "default/orders under shop-slow-volume",
            "default/orders under shop-time-to-full",
        }
        assert left(server) == []
