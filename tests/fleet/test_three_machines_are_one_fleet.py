"""Three machines with addresses of their own, one control plane: pods reach pods by address, by name and through a service; a machine
that is cut off is given up when somebody says so, and has nothing twice when it is back."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from tests.fleet.plane import PORT, Plane, plane, talker
from tests.kit.network_namespaces import missing
from tests.kit.waiting import eventually

from pilothouse.api.kind_names import Node, Pod, Service, StatefulSet, StorageClass
from pilothouse.api.objects import Object, Tree
from pilothouse.client.api import Api

pytestmark = [pytest.mark.long, pytest.mark.etcd, pytest.mark.skipif(bool(missing()), reason=missing())]

MACHINES = {"m1", "m2", "m3"}
LABELS = {"app": "db"}
SPREAD = [
    {
        "maxSkew": 1,
        "topologyKey": "kubernetes.io/hostname",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": LABELS},
    }
]
IMPATIENT = [
    {"key": f"node.kubernetes.io/{key}", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 1}
    for key in ("unreachable", "not-ready")
]


@pytest.fixture(scope="module")
def fleet_of_three(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Plane]:
    with plane(tmp_path_factory.mktemp("fleet")) as fleet:
        yield fleet


async def ready_nodes(api: Api) -> set[str]:
    return {node.name for node in (await api.list(Node)).objects if node.is_true("Ready")}


async def ready_pods(api: Api) -> dict[str, Object]:
    pods = (await api.list(Pod, "default", labels="app=db")).objects
    return {pod.name: pod for pod in pods if pod.is_true("Ready") and not pod.deleting}


async def furnished(api: Api, replicas: int = 3) -> dict[str, Object]:
    """The set and its services, once all of its pods are ready: one on each machine, whichever test is the first."""

    async def all_there() -> bool:
        return await ready_nodes(api) == MACHINES

    ports = [{"name": "talk", "port": PORT, "targetPort": "talk"}]
    for name, spec in (("members", {"clusterIP": "None"}), ("db", {})):
        body = {"metadata": {"name": name, "namespace": "default"}}
        if await api.find(Service, name, "default") is None:
            await api.create(Service, {**body, "spec": {"selector": LABELS, "ports": ports, **spec}})
    if await api.find(StatefulSet, "db", "default") is None:
        await eventually(all_there, seconds=120)
        spec = talker(topologySpreadConstraints=SPREAD, tolerations=IMPATIENT)
        await api.create(StatefulSet, stateful_set(replicas, name="db", labels=LABELS, spec=spec))

    async def all_ready() -> dict[str, Object] | None:
        pods = await ready_pods(api)
        return pods if len(pods) == replicas else None

    return await eventually(all_ready, seconds=150)


def stateful_set(replicas: int, *, name: str, labels: dict[str, str], spec: Tree) -> Tree:
    return {
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "replicas": replicas,
            "serviceName": "members",
            "podManagementPolicy": "Parallel",
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": spec},
        },
    }


async def test_pods_reach_pods_by_address_by_name_and_through_a_service(fleet_of_three: Plane) -> None:
    fleet = fleet_of_three
    async with fleet.api(1) as api:
        pods = await furnished(api)
        assert {pod.spec["nodeName"] for pod in pods.values()} == {"m1", "m2", "m3"}
        node_of = {node.name: node for node in fleet.nodes}
        addresses = {name: pod.status["podIP"] for name, pod in pods.items()}
        for name, pod in pods.items():
            node = node_of[pod.spec["nodeName"]]
            assert addresses[name].startswith(node.range.removesuffix("0/24"))
            for other, target in pods.items():
                who = f"{other} {target.uid}"

                async def asked(line: str, expected: str, node: Any = node, name: str = name) -> None:
                    async def so() -> bool:
                        return fleet.said(node, addresses[name], line) == expected

                    await eventually(so, seconds=60)

                await asked(f"ask {addresses[other]} {PORT}", who)
                for host in (
                    f"{other}.members",
                    f"{other}.members.default",
                    f"{other}.members.default.svc.cluster.local",
                ):
                    await asked(f"ask {host} {PORT}", who)
            await asked("resolve members", " ".join(sorted(addresses.values())))
            heard = {
                fleet.said(node, addresses[name], f"ask db.default {PORT}").split()[0] for _ in range(25)
            }
            assert heard == set(pods)
        found = [node for node in (await api.list(Node)).objects if node.is_true("NetworkUnavailable")]
        assert found == []


async def test_a_pod_finds_the_api_server_and_is_known_there(fleet_of_three: Plane) -> None:
    fleet = fleet_of_three
    async with fleet.api() as api:
        for pod in (await furnished(api)).values():
            node = next(node for node in fleet.nodes if node.name == pod.spec["nodeName"])
            assert "+pilothouse" in fleet.said(node, pod.status["podIP"], "server")


async def test_prometheus_is_told_of_every_server_whichever_it_asks(fleet_of_three: Plane) -> None:
    there = {server.target.url.removeprefix("https://") for server in fleet_of_three.servers}
    assert len(there) == 2
    for number in range(2):
        async with fleet_of_three.api(number) as api:
            [told] = json.loads(await api.fetch("/pilothouse/v1/server-targets"))
            assert set(told["targets"]) == there


async def test_pods_and_names_stay_while_an_agent_is_dead_and_follow_once_one_is_back(
    fleet_of_three: Plane,
) -> None:
    fleet = fleet_of_three
    async with fleet.api() as api:
        before = await furnished(api)
        pod, other = before["db-0"], before["db-1"]
        node = next(node for node in fleet.nodes if node.name == pod.spec["nodeName"])
        beside = next(each for each in fleet.nodes if each is not node)
        programs = node.talkers()
        asked = f"ask db-1.members {PORT}"

        async def known() -> bool:
            return fleet.said(beside, pod.status["podIP"], asked) == f"db-1 {other.uid}"

        await eventually(known, seconds=60)
        assert node.process is not None
        node.process.kill()
        # Without an agent, everything that was known goes on working.
        assert fleet.said(beside, pod.status["podIP"], "who") == f"db-0 {pod.uid}"
        assert fleet.said(beside, pod.status["podIP"], asked) == f"db-1 {other.uid}"

        await api.delete(Pod, "db-1", "default")

        async def another() -> Object | None:
            found = (await ready_pods(api)).get("db-1")
            return found if found is not None and found.uid != other.uid else None

        successor = await eventually(another, seconds=120)
        assert successor.status["podIP"] != other.status["podIP"]
        node.start("--stop-pods")

        async def followed() -> bool:
            return fleet.said(beside, pod.status["podIP"], asked) == f"db-1 {successor.uid}"

        await eventually(followed, seconds=60)
        after = await ready_pods(api)
        assert after["db-0"].uid == pod.uid
        assert after["db-0"].status["podIP"] == pod.status["podIP"]
        assert node.talkers() == programs


async def test_pods_come_up_while_a_member_of_the_store_is_dead(fleet_of_three: Plane) -> None:
    fleet = fleet_of_three
    async with fleet.api(1) as api:
        before = await furnished(api)
        leader = fleet.etcd.leader()
        leader.kill()
        try:
            await api.delete(Pod, "db-2", "default", deadline=60)

            async def anew() -> bool:
                found = (await ready_pods(api)).get("db-2")
                return found is not None and found.uid != before["db-2"].uid

            await eventually(anew, seconds=150)
        finally:
            leader.begin()
            leader.wait_until_healthy()


async def test_a_cable_that_is_pulled_for_a_moment_costs_nothing(fleet_of_three: Plane) -> None:
    fleet = fleet_of_three
    async with fleet.api() as api:
        before = await furnished(api)
        pod, other = before["db-0"], before["db-1"]
        node = next(node for node in fleet.nodes if node.name == pod.spec["nodeName"])
        node.machine.cut_off()
        try:
            await api.delete(Pod, "db-1", "default")

            async def another() -> Object | None:
                found = (await ready_pods(api)).get("db-1")
                return found if found is not None and found.uid != other.uid else None

            successor = await eventually(another, seconds=40)
        finally:
            node.machine.heal()

        async def caught_up() -> bool:
            said = fleet.said(node, pod.status["podIP"], f"ask db-1.members {PORT}")
            return said == f"db-1 {successor.uid}"

        # Its agent learns what it missed, and nobody took its pods for lost.
        await eventually(caught_up, seconds=120)
        after = await ready_pods(api)
        assert after["db-0"].uid == pod.uid
        assert len(node.talkers()) == 1


async def kept(api: Api) -> Object:
    """A pod with a volume, once it is ready."""
    labels = {"app": "kept"}
    if await api.find(StorageClass, "folders") is None:
        await api.create(
            StorageClass,
            {
                "metadata": {"name": "folders"},
                "provisioner": "pilothouse.io/directory",
                "volumeBindingMode": "WaitForFirstConsumer",
            },
        )
        spec: dict[str, Any] = talker(tolerations=IMPATIENT)
        spec["containers"][0]["volumeMounts"] = [{"name": "data", "mountPath": "/data"}]
        claim = {
            "metadata": {"name": "data"},
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "storageClassName": "folders",
                "resources": {"requests": {"storage": "10Mi"}},
            },
        }
        tree = stateful_set(1, name="kept", labels=labels, spec=spec)
        tree["spec"]["volumeClaimTemplates"] = [claim]
        await api.create(StatefulSet, tree)

    async def ready() -> Object | None:
        pod = await api.find(Pod, "kept-0", "default")
        return pod if pod is not None and pod.is_true("Ready") and not pod.deleting else None

    return await eventually(ready, seconds=120)


async def test_a_machine_that_is_cut_off_is_given_up_and_has_nothing_twice_when_it_is_back(
    fleet_of_three: Plane,
) -> None:
    fleet = fleet_of_three
    async with fleet.api() as api:
        everyone = {node.name for node in fleet.nodes}
        before = await furnished(api)
        keeping = await kept(api)
        lost = next(node for node in fleet.nodes if node.name == keeping.spec["nodeName"])
        assert fleet.said(lost, keeping.status["podIP"], "remember me") == "me"
        stranded = next(pod for pod in before.values() if pod.spec["nodeName"] == lost.name)
        assert len(lost.talkers()) == 2
        lost.machine.cut_off()

        async def unheard() -> bool:
            return await ready_nodes(api) == everyone - {lost.name}

        await eventually(unheard, seconds=120)

        async def leaving() -> bool:
            pod = await api.get(Pod, stranded.name, "default")
            return pod.deleting and pod.uid == stranded.uid

        # It may still run there, so nobody takes its place until somebody says that the machine is gone.
        await eventually(leaving, seconds=60)
        await api.delete(Node, lost.name)

        async def moved() -> dict[str, Object] | None:
            pods = await ready_pods(api)
            return pods if len(pods) == 3 and pods[stranded.name].uid != stranded.uid else None

        after = await eventually(moved, seconds=120)
        moved_pod = after[stranded.name]
        assert moved_pod.spec["nodeName"] != lost.name
        home = next(node for node in fleet.nodes if node.name == moved_pod.spec["nodeName"])
        elsewhere = next(pod for pod in after.values() if pod.spec["nodeName"] != home.name)
        asking = next(node for node in fleet.nodes if node.name == elsewhere.spec["nodeName"])

        async def found_anew() -> bool:
            line = f"ask {stranded.name}.members {PORT}"
            said = fleet.said(asking, elsewhere.status["podIP"], line)
            return said == f"{stranded.name} {moved_pod.uid}"

        await eventually(found_anew, seconds=60)
        # What has its data there waits for the machine.
        waiting = await api.get(Pod, "kept-0", "default")
        assert waiting.uid != keeping.uid
        assert "nodeName" not in waiting.spec
        # Cut off, the machine can't know, and goes on.
        assert len(lost.talkers()) == 2

        lost.machine.heal()

        async def back() -> bool:
            return await ready_nodes(api) == everyone

        await eventually(back, seconds=150)
        kept_again = await kept(api)
        assert kept_again.spec["nodeName"] == lost.name
        assert fleet.said(lost, kept_again.status["podIP"], "recall") == "me"

        async def nothing_twice() -> bool:
            return len(lost.talkers()) == 1

        await eventually(nothing_twice, seconds=60)
        now = await ready_pods(api)
        assert {name: pod.uid for name, pod in now.items()} == {name: pod.uid for name, pod in after.items()}
        assert sum(len(node.talkers()) for node in fleet.nodes) == 4

        # And it is one of the fleet again: it takes pods, which reach the others and are reached.
        await api.patch(StatefulSet, "db", "default", {"spec": {"replicas": 4}})

        async def fourth() -> Object | None:
            pods = await ready_pods(api)
            return pods.get("db-3") if len(pods) == 4 else None

        newest = await eventually(fourth, seconds=120)
        assert newest.spec["nodeName"] == lost.name

        async def reached_by_name() -> bool:
            said = fleet.said(asking, elsewhere.status["podIP"], f"ask db-3.members {PORT}")
            return said == f"db-3 {newest.uid}"

        await eventually(reached_by_name, seconds=60)
