"""Logs that are followed and sessions cost the API server and the agent files for as long as they last."""

from __future__ import annotations

import dataclasses
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import aiohttp
import pytest
from tests.kit.http import Http
from tests.kit.rbac_objects import bind, place
from tests.kit.stream_node import Plane, StreamNode

from pilothouse.apiserver.flowcontrol.stream_limits import SESSIONS_OF_USER

SPACE = "/api/v1/namespaces/default"
FOLLOWED = f"{SPACE}/pods/web/log?follow=true"
TALK = f"{SPACE}/pods/web/exec?command=sleep&command=1000&stdout=true"
PROTOCOLS = {FOLLOWED: ("binary.k8s.io",), TALK: ("v4.channel.k8s.io",)}


@pytest.fixture
async def http(plane: Plane) -> AsyncIterator[Http]:
    async with Http.to(plane.server.target) as client:
        yield client


@pytest.fixture
async def viewer(http: Http) -> AsyncIterator[Http]:
    """Somebody who may do no more than look at a namespace."""
    (await http.post(f"{SPACE}/serviceaccounts", {"metadata": {"name": "viewer"}})).expect(201)
    bound = bind("default", "viewer", "ClusterRole/view", "ServiceAccount/default/viewer")
    (await http.post(place(bound), bound)).expect(201)
    made = (await http.post(f"{SPACE}/serviceaccounts/viewer/token", {"spec": {}})).expect(201)
    access = dataclasses.replace(http.target.access, cert=None, key=None, token=made["status"]["token"])
    async with Http.to(dataclasses.replace(http.target, access=access)) as client:
        yield client


async def refusal(client: Http, path: str) -> aiohttp.WSServerHandshakeError:
    with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
        async with client.websocket(path, protocols=PROTOCOLS[path]):
            pass
    return refused.value


async def test_a_user_has_so_many_and_others_are_served(node: StreamNode, http: Http, viewer: Http) -> None:
    await node.start("web", "echo hello; sleep 1000")
    async with AsyncExitStack() as stack:
        for _ in range(SESSIONS_OF_USER):
            await stack.enter_async_context(viewer.websocket(FOLLOWED, protocols=PROTOCOLS[FOLLOWED]))
        assert (await refusal(viewer, FOLLOWED)).status == 429
        said = (await viewer.get(f"{SPACE}/pods/web/log")).expect(429)
        assert (
            f"{SESSIONS_OF_USER} logs and sessions in containers open, which is the limit" in said["message"]
        )
        async with http.websocket(TALK, protocols=PROTOCOLS[TALK]):
            pass


async def test_a_node_has_so_many_whoever_asks(plane: Plane, http: Http, tmp_path: Path) -> None:
    async with StreamNode.serving(plane, tmp_path / "containers", most_streams=2) as node:
        await node.start("web", "echo hello; sleep 1000")
        async with (
            http.websocket(FOLLOWED, protocols=PROTOCOLS[FOLLOWED]),
            http.websocket(TALK, protocols=PROTOCOLS[TALK]),
        ):
            for path in (FOLLOWED, TALK):
                assert (await refusal(http, path)).status == 429
            said = (await http.get(f"{SPACE}/pods/web/log")).expect(429)
            assert said["message"].startswith("node n1: 2 logs and sessions in containers are open here")
