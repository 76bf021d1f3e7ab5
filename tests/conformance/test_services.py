"""Services keep, drop and share what they are reached at as Kubernetes has it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.kit import kube
from tests.kit.databases import Databases
from tests.kit.http import Http

pytestmark = pytest.mark.conformance

COUNTED = ("readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas")


def service(name: str, port: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    ports = [{"name": "a", "port": 80, **(port or {})}]
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name},
        "spec": {"ports": ports, **spec},
    }


class Services:
    """The services of one namespace."""

    def __init__(self, http: Http, namespace: str) -> None:
        self.http = http
        self.path = f"/api/v1/namespaces/{namespace}/services"

    async def create(self, name: str, port: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
        answer = await self.http.post(self.path, service(name, port, **spec))
        made: dict[str, Any] = answer.expect(201)
        return made

    async def change(self, name: str, **spec: Any) -> Any:
        return await self.http.patch(f"{self.path}/{name}", {"spec": spec})


@pytest.fixture
def services(dbs: Databases, http: Http) -> Services:
    return Services(http, dbs.namespace)


async def test_a_node_port_asked_for_at_once_goes_to_one(services: Services, http: Http) -> None:
    bodies = [service(f"s{number}", {"nodePort": 30778}, type="NodePort") for number in range(20)]

    answers = await asyncio.gather(*(http.post(services.path, body) for body in bodies))

    assert sorted(answer.status for answer in answers) == [201] + [422] * 19
    refused = next(answer for answer in answers if answer.status == 422)
    cause = refused.json["details"]["causes"][0]
    assert cause["field"] == "spec.ports[0].nodePort"
    assert cause["message"] == "Invalid value: 30778: provided port is already allocated"
    for number in range(20):
        await http.delete(f"{services.path}/s{number}")


async def test_an_address_asked_for_at_once_goes_to_one(services: Services, http: Http) -> None:
    address = (await services.create("first"))["spec"]["clusterIP"]
    taken = await http.post(services.path, service("second", clusterIP=address))
    assert taken.status == 422
    cause = taken.json["details"]["causes"][0]
    assert cause["field"] == "spec.clusterIPs"
    assert cause["message"].endswith("provided IP is already allocated")

    (await http.delete(f"{services.path}/first")).expect(200)
    bodies = [service(f"s{number}", clusterIP=address) for number in range(10)]
    answers = await asyncio.gather(*(http.post(services.path, body) for body in bodies))

    assert sorted(answer.status for answer in answers) == [201] + [422] * 9


async def test_what_a_refused_write_asked_for_stays_free(services: Services, http: Http) -> None:
    await services.create("a")
    asked: dict[str, Any] = {"type": "NodePort", "port": {"nodePort": 30779}}

    assert (await http.post(services.path, service("a", **asked))).status == 409
    assert (await http.post(services.path, service("b", sessionAffinity="x", **asked))).status == 422
    assert (await http.post(services.path, service("b", **asked), dryRun="All")).status == 201
    await services.create("c", **asked)
    (await http.delete(f"{services.path}/c")).expect(200)
    await services.create("d", **asked)
    (await services.change("d", type="ClusterIP")).expect(200)
    await services.create("e", **asked)
    (await http.delete(f"{services.path}/e")).expect(200)


async def test_a_node_port_is_given_up_with_the_type(services: Services) -> None:
    made = await services.create("a", type="NodePort", externalTrafficPolicy="Local")

    spec = (await services.change("a", type="ClusterIP")).expect(200)["spec"]

    assert "nodePort" not in spec["ports"][0]
    assert "externalTrafficPolicy" not in spec
    assert spec["clusterIP"] == made["spec"]["clusterIP"]


async def test_a_load_balancers_fields_go_with_it(services: Services) -> None:
    made = await services.create("a", type="LoadBalancer", loadBalancerClass="x.io/y")
    assert made["spec"]["allocateLoadBalancerNodePorts"] is True

    spec = (await services.change("a", type="NodePort")).expect(200)["spec"]

    assert "allocateLoadBalancerNodePorts" not in spec
    assert "loadBalancerClass" not in spec
    assert spec["ports"] == made["spec"]["ports"]
    assert spec["externalTrafficPolicy"] == "Cluster"


async def test_a_load_balancer_may_do_without_node_ports(services: Services) -> None:
    made = await services.create("a", type="LoadBalancer", allocateLoadBalancerNodePorts=False)

    assert "nodePort" not in made["spec"]["ports"][0]


async def test_an_external_name_has_no_address(services: Services) -> None:
    await services.create("a", type="NodePort")

    spec = (await services.change("a", type="ExternalName", externalName="x.example.io")).expect(200)["spec"]

    assert spec == {
        "externalName": "x.example.io",
        "ports": [{"name": "a", "port": 80, "protocol": "TCP", "targetPort": 80}],
        "sessionAffinity": "None",
        "type": "ExternalName",
    }
    back = (await services.change("a", type="ClusterIP", externalName=None)).expect(200)["spec"]
    assert back["clusterIPs"] == [back["clusterIP"]]
    assert back["internalTrafficPolicy"] == "Cluster"


async def test_an_external_name_may_not_ask_for_an_address(services: Services, http: Http) -> None:
    body = service("a", type="ExternalName", externalName="x.example.io", clusterIP="None")

    answer = await http.post(services.path, body)

    assert answer.status == 422
    assert [cause["field"] for cause in answer.json["details"]["causes"]] == ["spec.clusterIPs"]


async def test_a_service_does_not_become_headless(services: Services) -> None:
    await services.create("a")

    answer = await services.change("a", clusterIP="None")

    assert answer.status == 422
    cause = answer.json["details"]["causes"][0]
    assert cause["field"] == "spec.clusterIPs[0]"
    assert cause["message"].endswith("may not change once set")


async def test_what_was_given_is_kept_where_an_update_leaves_it_out(services: Services, http: Http) -> None:
    made = await services.create("a", type="NodePort")
    written = service("a", {"port": 81}, type="NodePort")

    spec = (await http.put(f"{services.path}/a", written)).expect(200)["spec"]

    assert spec["clusterIP"] == made["spec"]["clusterIP"]
    assert spec["ports"][0]["nodePort"] == made["spec"]["ports"][0]["nodePort"]


async def test_a_type_change_does_not_hide_what_is_asked_for(services: Services) -> None:
    await services.create("a", type="NodePort")

    answer = await services.change(
        "a", type="ClusterIP", ports=[{"name": "a", "port": 80, "nodePort": 30790}]
    )

    assert answer.status == 422
    assert [each["field"] for each in answer.json["details"]["causes"]] == ["spec.ports[0].nodePort"]


async def test_a_cluster_address_has_no_external_traffic_policy(services: Services, http: Http) -> None:
    answer = await http.post(services.path, service("a", externalTrafficPolicy="Local"))

    assert answer.status == 422
    assert [each["field"] for each in answer.json["details"]["causes"]] == ["spec.externalTrafficPolicy"]


async def test_a_namespace_with_a_generated_name_is_labelled_with_it(http: Http) -> None:
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"generateName": "gen-"}}

    made = (await http.post("/api/v1/namespaces", body)).expect(201)["metadata"]

    assert made["labels"]["kubernetes.io/metadata.name"] == made["name"]


@pytest.mark.parametrize(
    ("status", "fields"),
    [
        ({"replicas": -1}, [f"status.{each}" for each in ("replicas", *COUNTED)]),
        ({"replicas": 1, "readyReplicas": 2}, ["status.readyReplicas"]),
        ({"replicas": 1, "currentReplicas": 2}, ["status.currentReplicas"]),
        ({"replicas": 1, "updatedReplicas": 2}, ["status.updatedReplicas"]),
        ({"replicas": 2, "availableReplicas": 1}, ["status.availableReplicas"]),
        ({"replicas": 1, "observedGeneration": -1}, ["status.observedGeneration"]),
        ({"replicas": 1, "collisionCount": -1}, ["status.collisionCount"]),
    ],
    ids=str,
)
async def test_a_sets_status_adds_up(
    dbs: Databases, http: Http, status: dict[str, Any], fields: list[str]
) -> None:
    path = f"/apis/apps/v1/namespaces/{dbs.namespace}/statefulsets"
    labels = {"app": "a"}
    container = {"name": "c", "image": "i"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
    spec = {"selector": {"matchLabels": labels}, "serviceName": "a", "template": template}
    body = {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "a"}, "spec": spec}
    made = (await http.post(path, body)).expect(201)

    answer = await http.put(f"{path}/a/status", {**made, "status": status})

    assert answer.status == 422
    assert [each["field"] for each in answer.json["details"]["causes"]] == fields


async def test_the_servers_are_behind_a_service_of_their_own(http: Http) -> None:
    path = "/api/v1/namespaces/default/services/kubernetes"
    made = (await http.get(path)).expect(200)
    assert made["metadata"]["labels"] == {"component": "apiserver", "provider": "kubernetes"}
    assert made["spec"]["type"] == "ClusterIP"
    [port] = made["spec"]["ports"]
    assert (port["name"], port["port"], port["protocol"]) == ("https", 443, "TCP")
    if http.target.name == kube.NAME:
        return  # The one that tests run keeps no endpoints: it listens on loopback, which Kubernetes has in none.
    endpoints = (await http.get("/api/v1/namespaces/default/endpoints/kubernetes")).expect(200)
    # Servers of the tests before, at other ports, may still be counted where a store is shared.
    subsets = {subset["ports"][0]["port"]: subset["addresses"] for subset in endpoints["subsets"]}
    assert port["targetPort"] in subsets
    slices = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices"
    selector = "kubernetes.io/service-name=kubernetes"
    found = (await http.get(slices, labelSelector=selector)).expect(200)["items"]
    [mine] = [each for each in found if each["ports"][0]["port"] == port["targetPort"]]
    served = [address for each in mine["endpoints"] for address in each["addresses"]]
    assert served == [each["ip"] for each in subsets[port["targetPort"]]]


async def test_the_service_of_the_servers_comes_back(http: Http) -> None:
    path = "/api/v1/namespaces/default/services/kubernetes"
    made = (await http.get(path)).expect(200)
    (await http.delete(path)).expect(200)
    for _ in range(600):
        again = await http.get(path)
        if again.status == 200 and again.json["metadata"]["uid"] != made["metadata"]["uid"]:
            break
        await asyncio.sleep(0.1)
    assert again.json["spec"]["clusterIP"] == made["spec"]["clusterIP"]
