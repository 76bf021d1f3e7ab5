"""`pilothouse node` as a process, with the rights of its node, carries out the turns of a plan."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.kit.managed_programs import program
from tests.kit.payload_server import PayloadServer
from tests.kit.pilothouse_server import PilothouseServer
from tests.kit.processes import Process
from tests.node.updating.machine import NAME, UpdatedMachine

from pilothouse.api.kind_names import ControlNode, Node
from pilothouse.app.data_folder import DataFolder
from pilothouse.base.clock import SystemClock
from pilothouse.cli.node import node
from pilothouse.client.http_transport import HttpTransport
from pilothouse.client.kubeconfig import load
from pilothouse.node.updating.update_profile import Mode
from pilothouse.pki.minisign import SecretKey

CHAIN = ["Downloading", "Cordoning", "ApplyingUpdate", "Restart", "UnCordoning", "Completed"]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PilothouseServer]:
    server = PilothouseServer(tmp_path_factory.mktemp("server"), "memory", flags=["--local-node", NAME])
    yield server
    server.close()


@pytest.mark.parametrize("mode", ["worker", "controller", "controller+worker"])
async def test_a_plan_updates_the_machine_of_a_node(
    tmp_path: Path, server: PilothouseServer, mode: Mode
) -> None:
    own = DataFolder(server.target.kubeconfig.parent).node_kubeconfig
    clock = SystemClock()
    async with HttpTransport.open(load(server.target.kubeconfig), clock, agent="tester") as transport:
        with PayloadServer.running() as payloads:
            machine = UpdatedMachine(transport, tmp_path, payloads, mode)
            machine.data = tmp_path / "data" / "node" / "updates"
            machine.install(program("v1.0.0"))
            await machine.create_objects()
            machine.start_leader()
            profile = tmp_path / "profile.yaml"
            profile.write_text(json.dumps(machine.profile_tree()))
            argv = [sys.executable, "-m", "pilothouse", "node", "--kubeconfig", str(own)]
            argv += ["--data", str(tmp_path / "data"), "--name", NAME, "--no-pods", "--mode", mode]
            argv += ["--update-profile", str(profile), "--api-port", "7443", "--node-ip", "127.0.0.1"]
            agent = Process.start("pilothouse node", argv, log=tmp_path / "node.log")
            try:
                await machine.answers("v1.0.0")
                machine.serve("v2.0.0", program("v2.0.0"))
                await machine.order("v2.0.0")
                await machine.signal()
                ended = await machine.until("Completed", "Failed", "FailedDownload", seconds=60)
                assert ended.step == "Completed", agent.output()
                assert await machine.noted("Completed") == CHAIN
                if mode != "worker":
                    status = (await machine.api.get(ControlNode, NAME)).status
                    assert (status["k0sVersion"], status["apiPort"]) == ("v2.0.0", 7443)
                if mode == "controller":
                    assert await machine.api.find(Node, NAME) is None
                assert await asyncio.to_thread(agent.end) == 0
                # The program outlives the agent.
                assert await machine.asked() == "v2.0.0"
            finally:
                await asyncio.to_thread(agent.kill)
                await machine.close()
                await machine.delete_objects()


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--payloads", "digest"], "--payloads, --trusted-keys and --download-* need --update-profile"),
        (["--update-profile", "k0s", "--payloads", "signed"], "--payloads signed needs --trusted-keys FILE"),
        (["--update-profile", "missing.yaml"], "missing.yaml can't be read"),
        (["--update-profile", "bad.yaml"], "Object missing required field `path`"),
        (["--update-profile", "both.yaml"], "exactly one of restart and run is needed"),
        (["--update-profile", "tree.yaml"], "run: the agent is part of the tree, and restarts itself"),
        (["--update-profile", "tree-and-path.yaml"], "only one of path and tree is possible"),
        (["--update-profile", "pilothouse"], "has to run from where `pilothouse updates install` puts it"),
        (["--update-profile", "k0s", "--trusted-keys", "bad.yaml"], "the public key is not base64"),
        (["--update-profile", "k0s", "--download-ca", "host"], "write HOST=FILE"),
        (["--update-profile", "k0s", "--download-token", "host=missing"], "missing can't be read"),
        (["--update-profile", "k0s", "--max-download-size", "0"], "must be positive"),
    ],
)
def test_mistakes_are_told_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, server: PilothouseServer, flags: list[str], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bad.yaml").write_text("version: [x]")
    (tmp_path / "both.yaml").write_text(
        "{path: /x, version: [x], health: [x], run: [x], restart: [y]}",
    )
    (tmp_path / "tree.yaml").write_text("{tree: /x, run: [x]}")
    (tmp_path / "tree-and-path.yaml").write_text("{tree: /x, path: /x/y}")
    kubeconfig = ["--kubeconfig", str(server.target.kubeconfig)]
    result = CliRunner().invoke(node, [*kubeconfig, "--data", str(tmp_path / "data"), *flags])
    assert result.exit_code != 0
    assert message in " ".join(result.output.split())


def test_a_file_of_trusted_keys_has_comments_and_several_keys(tmp_path: Path) -> None:
    from pilothouse.app.node_updates import download_settings

    keys = [SecretKey.generate().public() for _ in range(2)]
    file = tmp_path / "keys"
    file.write_text("# ours\n" + "".join(key.dump() for key in keys))
    settings = download_settings("any", file, {}, {}, 1)
    assert settings.trust.policy == "signed"
    assert list(settings.trust.keys) == keys
