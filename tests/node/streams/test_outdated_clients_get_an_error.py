"""kubectls before 1.30 speak SPDY, which nobody here does."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.kit.kubectl import Binary, Kubectl, installed
from tests.kit.stream_node import Plane, StreamNode
from tests.node.streams.conftest import OLDEST

OLD = [each for each in installed() if 0 < each.minor < OLDEST]
pytestmark = pytest.mark.skipif(
    not OLD, reason=f"there is no kubectl before 1.{OLDEST} beside the one on PATH"
)


@pytest.fixture(params=OLD or [Binary("none", Path())], ids=lambda each: each.version)
def binary(request: pytest.FixtureRequest) -> Binary:
    found: Binary = request.param
    return found


async def test_they_read_logs(kubectl: Kubectl, node: StreamNode) -> None:
    container = await node.start("web", "echo one")
    await container.exited()
    assert (await kubectl("logs", "web")).ok() == "one\n"


@pytest.mark.parametrize(
    "command", [("exec", "web", "--", "true"), ("attach", "web")], ids=["exec", "attach"]
)
async def test_they_are_told_which_kubectl_to_use(
    kubectl: Kubectl, node: StreamNode, command: tuple[str, ...]
) -> None:
    await node.start("web", "sleep 1000")
    refused = await kubectl(*command)
    assert refused.code == 1
    assert "use kubectl 1.30 or newer" in refused.err


async def test_what_else_is_wrong_is_told_first(kubectl: Kubectl, node: StreamNode) -> None:
    await node.start("web", "sleep 1000")
    refused = await kubectl("exec", "web", "-c", "other", "--", "true")
    assert "container other is not valid for pod web" in refused.err


async def test_one_that_can_be_told_to_speak_websockets_can(
    plane: Plane, node: StreamNode, tmp_path: Path
) -> None:
    (binary,) = [each for each in OLD if each.minor == OLDEST - 1]
    told = tmp_path / "kubectl"
    told.write_text(f'#!/bin/sh\nKUBECTL_REMOTE_COMMAND_WEBSOCKETS=true exec {binary.path} "$@"\n')
    told.chmod(0o700)
    kubectl = Kubectl(Binary(binary.version, told), plane.server.target.kubeconfig, tmp_path / "home")
    await node.start("web", "sleep 1000")
    assert (await kubectl("exec", "web", "--", "echo", "spoken")).ok() == "spoken\n"
