"""``pilothouse rule pause`` and ``resume`` against a server, as a user runs them."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Iterator
from typing import Any

import pytest
from tests.cli.running import Server, pilothouse

from pilothouse.api.kind_names import AutopilotRule
from pilothouse.api.openstorage.pauses import PAUSED, is_paused, pauses_all
from pilothouse.base.clock import SystemClock
from pilothouse.client.api import Api
from pilothouse.client.http_transport import HttpTransport
from pilothouse.client.kubeconfig import load

RULE = {
    "apiVersion": "autopilot.libopenstorage.org/v1alpha1",
    "kind": "AutopilotRule",
    "metadata": {"name": "grow"},
    "spec": {
        "conditions": {
            "expressions": [{"keyAlias": "VolumeUsagePercent", "operator": "Gt", "values": ["50"]}]
        },
        "actions": [{"name": "openstorage.io.action.volume/resize"}],
    },
}
RULES = "/apis/autopilot.libopenstorage.org/v1alpha1/autopilotrules"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with Server(tmp_path_factory.mktemp("plane")) as running:

        async def create() -> None:
            access = load(running.kubeconfig)
            async with HttpTransport.open(access, SystemClock(), agent="test") as transport:
                await Api(transport, random.Random(1), manager="test").create(AutopilotRule, RULE)

        asyncio.run(create())
        yield running


def run(server: Server, *args: str) -> tuple[int, str]:
    done = pilothouse("rule", *args, "--kubeconfig", str(server.kubeconfig))
    return done.returncode, done.stdout + done.stderr


def marks(server: Server, path: str) -> dict[str, Any]:
    return dict(json.loads(server.get(path).body)["metadata"].get("annotations") or {})


@pytest.mark.parametrize(
    ("scope", "path", "what"),
    [
        (["grow"], f"{RULES}/grow", "rule grow"),
        (["-n", "default"], "/api/v1/namespaces/default", "namespace default"),
    ],
)
def test_a_rule_and_a_namespace_are_annotated(server: Server, scope: list[str], path: str, what: str) -> None:
    assert run(server, "pause", *scope) == (0, f"{what} paused: no action begins until it is resumed\n")
    assert marks(server, path)[PAUSED] == "true"
    assert run(server, "resume", *scope) == (0, f"{what} resumed\n")
    assert PAUSED not in marks(server, path)


def test_all_rules_are_paused_by_a_config_map(server: Server) -> None:
    path = "/api/v1/namespaces/kube-system/configmaps/autopilot"
    assert run(server, "resume", "--all") == (0, "all rules resumed\n")
    for _ in range(2):
        assert run(server, "pause", "--all")[0] == 0
        assert pauses_all(json.loads(server.get(path).body)["data"])
        assert run(server, "resume", "--all")[0] == 0
        assert not pauses_all(json.loads(server.get(path).body).get("data"))


def test_mistakes_are_explained(server: Server) -> None:
    for args in ([], ["grow", "--all"], ["grow", "-n", "default"]):
        code, text = run(server, "pause", *args)
        assert code == 2
        assert "give one of RULE, --namespace and --all" in text
    code, text = run(server, "pause", "shrink")
    assert code == 1
    assert 'autopilotrules.autopilot.libopenstorage.org "shrink" not found' in text


def test_what_counts_as_a_pause() -> None:
    assert is_paused({PAUSED: "true"})
    assert is_paused({PAUSED: "until the disks are replaced"})
    assert not is_paused({PAUSED: "false"})
    assert not is_paused({PAUSED: ""})
    assert not is_paused(None)
