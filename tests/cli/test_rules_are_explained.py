"""``pilothouse rule explain`` as a user runs it: against a real server, with a manager whose metrics stay the same."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from threading import Event, Thread

import pytest
from tests.cli.running import PATIENCE, Server, pilothouse

from pilothouse.api.kind_names import AutopilotRule, AutopilotRuleObject, PersistentVolumeClaim, StorageClass
from pilothouse.api.objects import Tree
from pilothouse.base.clock import SystemClock
from pilothouse.client.api import Api
from pilothouse.client.http_transport import HttpTransport
from pilothouse.client.kubeconfig import load
from pilothouse.client.shared_informers import SharedInformers
from pilothouse.rules.rule_controllers import rule_controllers
from pilothouse.rules.samples import Answer, Sample
from pilothouse.runtime.election import NoElection
from pilothouse.runtime.manager import Manager
from pilothouse.sim.metered_volumes import ModelledProvider

USAGE = {"data-0": 62.5, "data-1": 20.0}
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
    """Volumes are always as full."""

    def get(self, name: str) -> ModelledProvider:
        return ModelledProvider(self)

    async def query(self, expressions: Sequence[str], now: float) -> Mapping[str, Answer]:
        named = [
            Sample({"namespace": "default", "persistentvolumeclaim": name}, value, now)
            for name, value in USAGE.items()
        ]
        return dict.fromkeys(expressions, named)


@asynccontextmanager
async def reached(server: Server) -> AsyncIterator[Api]:
    async with HttpTransport.open(load(server.kubeconfig), SystemClock(), agent="test") as transport:
        yield Api(transport, random.Random(1), manager="test")


async def fill(api: Api) -> None:
    fast = {"metadata": {"name": "fast"}, "provisioner": "example.com/m", "allowVolumeExpansion": True}
    await api.create(StorageClass, fast)
    for tree in (claim("data-0"), claim("data-1"), claim("logs", "web")):
        created = await api.create(PersistentVolumeClaim, tree)
        bound = {"status": {"phase": "Bound", "capacity": {"storage": "320Mi"}}}
        await api.patch(PersistentVolumeClaim, created.name, "default", bound, subresource="status")
    await api.create(AutopilotRule, RULE)


async def manage(server: Server, ready: Event, ended: Event) -> None:
    """Run a manager of rules until ``ended``; ``ready`` is set once it has looked at all objects."""
    async with reached(server) as api:
        informers = SharedInformers(api, random.Random(1), SystemClock())
        manager = Manager(
            api, rule_controllers(SteadyUsage()), informers, NoElection(), SystemClock(), identity="m1"
        )
        running = asyncio.ensure_future(manager.run())
        while not ended.is_set():
            found = (await api.list(AutopilotRuleObject, "default")).objects
            if {one.status.get("state") for one in found} == {"Normal", "Triggered"}:
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
