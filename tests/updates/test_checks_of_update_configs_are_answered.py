"""The observer asks channels for UpdateConfigs, and answers in their status."""

from __future__ import annotations

import asyncio
import base64
import json
from urllib.parse import parse_qs, urlsplit

from tests.kit.channel_server import SHA256, Answer, index, legacy, serving_channel
from tests.updates.conftest import CLOCK, Cluster

from pilothouse.api.kind_names import ControlNode, Lease, Namespace, Node, Secret, UpdateConfig
from pilothouse.base.rfc3339 import format_micro_time
from pilothouse.client.api import Api
from pilothouse.updates.channel_source import TOKEN_SECRET
from pilothouse.updates.cluster_facts import gather

INDEX = "/stable/index.yaml"


async def make_machines(api: Api) -> None:
    for name, arch in (("w1", "amd64"), ("w2", "amd64"), ("w3", "arm64")):
        await api.create(Node, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}})
        info = {
            "architecture": arch,
            "operatingSystem": "linux",
            "containerRuntimeVersion": "containerd://1.7",
        }
        await api.patch(Node, name, "", {"status": {"nodeInfo": info}}, subresource="status")
    for name, version in (("c1", "v1.30.2+k0s.0"), ("c2", "v1.30.1+k0s.0")):
        body = {"apiVersion": ControlNode.api_version, "kind": "ControlNode", "metadata": {"name": name}}
        await api.create(ControlNode, body)
        await api.patch(ControlNode, name, "", {"status": {"k0sVersion": version}}, subresource="status")
    for name, age in (("k0s-ctrl-c1", 1.0), ("k0s-ctrl-c2", 3600.0), ("w1", 1.0)):
        renewed = format_micro_time(CLOCK.now() - age)
        lease = {
            "apiVersion": Lease.api_version,
            "kind": "Lease",
            "metadata": {"name": name, "namespace": "kube-node-lease"},
            "spec": {"renewTime": renewed, "leaseDurationSeconds": 40},
        }
        await api.create(Lease, lease)


async def put_token(api: Api, token: str, **more: str) -> None:
    namespace, name = TOKEN_SECRET
    words = {"token": token, **more}
    body = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name, "namespace": namespace},
        "data": {key: base64.b64encode(word.encode()).decode() for key, word in words.items()},
    }
    await api.create(Secret, body)


async def test_nodes_do_not_make_the_headers_long(api: Api) -> None:
    for number in range(20):
        name = f"w{number:02}"
        await api.create(Node, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}})
        runtime = "containerd://1.7" if number > 16 else f"{number:02}" + "é" * 100_000
        info = {"architecture": "amd64", "operatingSystem": "linux", "containerRuntimeVersion": runtime}
        await api.patch(Node, name, "", {"status": {"nodeInfo": info}}, subresource="status")
    facts = await gather(api, CLOCK.now(), running="v1.30.1+" + "a" * 100_000)
    assert facts.runtimes["containerd://1.7"] == 3
    assert len(facts.runtimes) == 16
    assert {len(each) for each in facts.runtimes} == {16, 64}
    assert max(map(len, facts.headers().values())) < 4096


async def test_k0s_A38_a_check_is_answered_with_the_offer(cluster: Cluster) -> None:
    await make_machines(cluster.api)
    system = await cluster.api.get(Namespace, "kube-system")
    with serving_channel({INDEX: Answer(index("v1.30.3+k0s.0"))}) as server:
        await cluster.follow(server.url)
        answer = await cluster.answer(1)
    assert answer["version"] == "v1.30.3+k0s.0"
    assert answer["downloads"] == [
        {
            "platform": "linux-amd64",
            "k0s": {"url": "https://dl.example.com/k0s-v1.30.3+k0s.0-amd64", "sha256": SHA256},
        }
    ]
    assert answer["time"]
    headers = server.asked[0].headers
    assert headers["K0S_ClusterID"] == f"kube-system:{system.uid}"
    assert headers["K0S_ControlPlaneNodesCount"] == "1"
    assert headers["K0S_Version"] == "v1.30.1+k0s.0"
    assert headers["K0S_StorageType"] == "sqlite"
    assert headers["K0S_CNIProvider"] == "pilothouse"
    workers = json.loads(base64.b64decode(headers["K0S_WorkerData"]))
    assert workers["Archs"] == {"amd64": 2, "arm64": 1}
    assert workers["Runtimes"] == {"containerd://1.7": 3}


async def test_k0s_A41_the_token_of_the_secret_is_sent(cluster: Cluster) -> None:
    with serving_channel({INDEX: Answer(index("v1.2.3"))}) as server:
        await cluster.follow(server.url)
        await cluster.answer(1)
        await put_token(cluster.api, "s3cret\n")
        await cluster.answer(2)
    assert [asked.headers["Authorization"] for asked in server.asked] == [None, "Bearer s3cret"]


async def test_a_token_is_sent_to_the_server_that_it_is_for(cluster: Cluster) -> None:
    await put_token(cluster.api, "s3cret", server="https://updates.example.com")
    with serving_channel({INDEX: Answer(index("v1.2.3"))}) as server:
        await cluster.follow(server.url)
        answer = await cluster.answer(1)
    assert "is for https://updates.example.com, and spec.updateServer is another" in answer["message"]
    assert server.asked == []


async def test_k0s_A41_a_token_that_is_none_is_not_sent(cluster: Cluster) -> None:
    await put_token(cluster.api, "two words")
    with serving_channel({INDEX: Answer(index("v1.2.3"))}) as server:
        await cluster.follow(server.url)
        answer = await cluster.answer(1)
    assert "is not one word of ASCII" in answer["message"]
    assert server.asked == []


async def test_k0s_A41_a_refusal_is_answered_and_the_next_check_asks_again(cluster: Cluster) -> None:
    with serving_channel({INDEX: Answer("", 500)}) as server:
        await cluster.follow(server.url)
        answer = await cluster.answer(1)
        assert "answered 500" in answer["message"]
        assert "version" not in answer
        server.answers[INDEX] = Answer("<html>")
        assert "not a mapping" in (await cluster.answer(2))["message"]
        server.answers[INDEX] = Answer(index("v1.2.3"))
        answer = await cluster.answer(3)
        assert (answer["version"], answer.get("message", "")) == ("v1.2.3", "")


async def test_a_schedule_uses_the_older_form(cluster: Cluster) -> None:
    with serving_channel({"/edge": Answer(legacy("v1.2.3"))}) as server:
        await cluster.follow(server.url, channel="edge", upgradeStrategy={"type": "cron", "cron": "@daily"})
        assert (await cluster.answer(1))["version"] == "v1.2.3"
    query = parse_qs(urlsplit(server.asked[0].path).query, keep_blank_values=True)
    assert query["lastUpdateStatus"] == [""]
    assert query["currentVersion"] == ["v0.0.1"]


async def test_a_check_is_made_once(cluster: Cluster) -> None:
    with serving_channel({INDEX: Answer(index("v1.2.3"))}) as server:
        await cluster.follow(server.url)
        await cluster.answer(1)
        await cluster.api.patch(UpdateConfig, "updates", "", {"metadata": {"labels": {"a": "b"}}})
        await asyncio.sleep(0.2)
        await cluster.answer(2)
    assert len(server.asked) == 2


async def test_without_a_check_nothing_is_asked(cluster: Cluster) -> None:
    with serving_channel({INDEX: Answer(index("v1.2.3"))}) as server:
        await cluster.follow(server.url)
        await cluster.api.patch(UpdateConfig, "updates", "", {"metadata": {"labels": {"a": "b"}}})
        await asyncio.sleep(0.2)
    assert server.asked == []
