"""The observer finds out what the controllers, which do no I/O, ask in a plan's status, and answers there."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from random import Random
from typing import Any

import pytest
from tests.kit.loopback import loopback
from tests.kit.waiting import eventually

from pilothouse.api.k0s.rollout import Gate
from pilothouse.api.kind_names import (
    ConfigMap,
    ControlNode,
    CustomResourceDefinition,
    KindName,
    Namespace,
    Plan,
)
from pilothouse.api.objects import Object
from pilothouse.base.clock import SystemClock
from pilothouse.client.access import Access
from pilothouse.client.api import Api
from pilothouse.client.informer import Informer
from pilothouse.meta.errors import StatusError
from pilothouse.updates.plan_checks import ServerChecks
from pilothouse.updates.plan_observer import PlanObserver
from pilothouse.updates.readiness_probe import ReadinessProbe

NOWHERE = Access("http://127.0.0.1:1")
SPEC: dict[str, Any] = {"commands": []}


@pytest.fixture
async def api() -> AsyncIterator[Api]:
    async with loopback() as transport:
        yield Api(transport, Random(1), manager="test")


@pytest.fixture
def checks(api: Api) -> ServerChecks:
    probe = ReadinessProbe(NOWHERE, agent="test", scheme="http", seconds=5)
    return ServerChecks(api, probe)


@pytest.fixture
async def observed(api: Api, checks: ServerChecks) -> AsyncIterator[None]:
    plans = Informer(api, Plan, Random(1), SystemClock())
    async with asyncio.TaskGroup() as group:
        tasks = [
            group.create_task(plans.run()),
            group.create_task(PlanObserver(api, plans, SystemClock(), checks).run(lambda: None)),
        ]
        yield
        for task in tasks:
            task.cancel()


async def create(api: Api, noun: KindName, tree: dict[str, Any]) -> None:
    await api.create(noun, {"apiVersion": noun.api_version, "kind": noun.kind, **tree})


async def asked(api: Api, questions: dict[str, Any], spec: dict[str, Any] | None = None) -> Object:
    """A plan with these questions, once they are answered."""
    if await api.find(Plan, "autopilot") is None:
        await create(api, Plan, {"metadata": {"name": "autopilot"}, "spec": spec or SPEC})
    status = {"questions": questions, "spec": spec or SPEC}
    await api.patch(Plan, "autopilot", "", {"status": status}, subresource="status")

    async def answered() -> Object | None:
        plan = await api.get(Plan, "autopilot")
        return plan if plan.at("status", "answers", "number", default=0) == questions["number"] else None

    return await eventually(answered, seconds=30)


async def control_node(api: Api, name: str, *, address: str = "", port: int = 0) -> None:
    await create(api, ControlNode, {"metadata": {"name": name}})
    if address:
        status = {"addresses": [{"type": "InternalIP", "address": address}], "apiPort": port}
        await api.patch(ControlNode, name, "", {"status": status}, subresource="status")


class Machine:
    """A program that answers every request with one status."""

    def __init__(self, status: int) -> None:
        self._status = status
        self.asked: list[str] = []

    async def __aenter__(self) -> Machine:
        self._server = await asyncio.start_server(self._answer, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        self.asked.append(head.decode())
        writer.write(f"HTTP/1.1 {self._status} Something\r\nContent-Length: 0\r\n\r\n".encode())
        await writer.drain()
        writer.close()


async def test_every_control_node_is_asked_whether_it_is_ready(api: Api, observed: None) -> None:
    async with Machine(200) as good, Machine(500) as bad:
        await control_node(api, "c1", address="127.0.0.1", port=good.port)
        await control_node(api, "c2", address="127.0.0.1", port=bad.port)
        await control_node(api, "c3")
        plan = await asked(api, {"number": 1, "readiness": True})
        answers = plan.status["answers"]
        assert [(each["name"], each["ready"]) for each in answers["readiness"]] == [
            ("c1", True),
            ("c2", False),
            ("c3", False),
        ]
        assert answers["readiness"][1]["message"] == f"HTTP 500 from http://127.0.0.1:{bad.port}/readyz"
        assert "its status has no InternalIP address" in answers["readiness"][2]["message"]
        assert answers["time"]
        again = await asked(api, {"number": 2, "readiness": True})
        assert again.status["answers"]["number"] == 2
        assert len(good.asked) == 2
        assert "authorization" not in good.asked[0].lower()


async def test_a_machine_that_is_away_is_an_answer_too(api: Api, observed: None) -> None:
    async with Machine(200) as gone:
        await control_node(api, "c1", address="127.0.0.1", port=gone.port)
    [answer] = (await asked(api, {"number": 1, "readiness": True})).status["answers"]["readiness"]
    assert not answer["ready"]
    assert answer["message"].startswith(f"no answer from http://127.0.0.1:{gone.port}/readyz: ")


async def test_only_what_was_asked_is_answered(api: Api, observed: None) -> None:
    await control_node(api, "c1")
    first = await asked(api, {"number": 1, "readiness": True, "removedApis": ["v1.30.0"]})
    assert {"readiness", "removedApis"} <= first.status["answers"].keys()
    second = await asked(api, {"number": 2, "readiness": False, "removedApis": ["v1.30.0", "v1.31.0"]})
    assert second.status["answers"]["removedApis"] == [{"version": "v1.30.0"}, {"version": "v1.31.0"}]
    assert "readiness" not in second.status["answers"]


REMOVED = KindName("k0s.k0sproject.example.com", "v1beta1", "RemovedCRD", "removedcrds", namespaced=False)


async def removed_kind(api: Api) -> None:
    version = {
        "name": REMOVED.version,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
    }
    definition = {
        "metadata": {"name": f"{REMOVED.plural}.{REMOVED.group}"},
        "spec": {
            "group": REMOVED.group,
            "names": {"kind": REMOVED.kind, "plural": REMOVED.plural},
            "scope": "Cluster",
            "versions": [version],
        },
    }
    await create(api, CustomResourceDefinition, definition)

    async def served() -> bool:
        try:
            await api.list(REMOVED)
        except StatusError:
            return False
        return True

    await eventually(served)


async def test_objects_that_a_version_removes_are_counted(api: Api, checks: ServerChecks) -> None:
    """k0s-A35 and k0s-A36, as the observer answers them."""
    await removed_kind(api)
    assert (await checks.removed_apis("v99.99.99")).message == ""
    await create(api, REMOVED, {"metadata": {"name": "one"}})
    answer = await checks.removed_apis("v99.99.99")
    assert answer.message == (
        "removedcrds.k0s.k0sproject.example.com v1beta1 has been removed in Kubernetes v99.99.99, "
        "but there are 1 such resources in the cluster"
    )
    assert (await checks.removed_apis("v99.99.98")).message == ""
    assert (await checks.removed_apis("not-a-version")).message == ""


def gate(expression: str, **fields: Any) -> Gate:
    return Gate(name="g", api_version="v1", kind="ConfigMap", expression=expression, **fields)


async def test_a_gate_is_open_if_its_expression_holds_for_each_object(api: Api, checks: ServerChecks) -> None:
    await create(api, Namespace, {"metadata": {"name": "shop"}})
    for name, health in (("a", "green"), ("b", "yellow")):
        metadata = {"name": name, "namespace": "shop", "labels": {"app": "db"}}
        await create(api, ConfigMap, {"metadata": metadata, "data": {"health": health}})
    green = "self.data.health == 'green'"
    assert (await checks.gate(gate(green, namespace="shop", object_name="a"))).open
    both = await checks.gate(gate(green, namespace="shop", labels="app=db"))
    assert (both.open, both.message) == (False, f"ConfigMap shop/b: {green} is not true")


async def test_a_gate_that_cant_be_read_is_shut_and_says_why(api: Api, checks: ServerChecks) -> None:
    await create(api, Namespace, {"metadata": {"name": "shop"}})
    await create(
        api, ConfigMap, {"metadata": {"name": "a", "namespace": "shop"}, "data": {"password": "hunter2"}}
    )
    here = {"namespace": "shop", "object_name": "a"}
    for shut, why in (
        (gate("true", namespace="shop", object_name="none"), 'configmaps "none" not found'),
        (gate("true", namespace="shop", labels="app=none"), "there is no ConfigMap to look at"),
        (gate("self.data.missing == 'x'", **here), "ConfigMap shop/a: self.data.missing == 'x' fails"),
        (gate("{'a': 1}[self.data.password] == 1", **here), "fails; does the object have these fields?"),
        (Gate(name="g", api_version="v1", kind="Secret", expression="true"), "does not look at Secrets"),
        (gate("self.data.password", **here), "ConfigMap shop/a: self.data.password is not true"),
        (Gate(name="g", api_version="x.io/v1", kind="Thing", expression="true"), "does not serve Thing"),
    ):
        answer = await checks.gate(shut)
        assert not answer.open
        assert why in answer.message
        assert "hunter2" not in answer.message


async def test_gates_of_the_plan_that_runs_are_answered(api: Api, observed: None) -> None:
    gates = [{"name": "spaces", "apiVersion": "v1", "kind": "Namespace", "expression": "has(self.metadata)"}]
    spec = {"commands": [], "rollout": {"gates": gates}}
    plan = await asked(api, {"number": 1, "gates": True}, spec)
    assert plan.status["answers"]["gates"] == [{"name": "spaces", "open": True}]
