"""Services written through two servers in the same instant: each address and each node port goes to one of them."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from tests.apiserver.instances.pairs import Pair, pair
from tests.kit.http import Answer, Http

pytestmark = pytest.mark.etcd

RANGE = "127.96.0.0/26"
ADDRESSES = 61
"""Those of the range, but for the first, which the Service of the servers themselves has."""
SERVICES = "/api/v1/namespaces/default/services"
ROUNDS = 25


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    flags = ("--service-cluster-ip-range", RANGE)
    with pair(tmp_path_factory.mktemp("pair"), flags=flags) as made:
        yield made


@pytest.fixture
async def both(two: Pair) -> AsyncIterator[tuple[Http, Http]]:
    async with Http.to(two.one.target) as one, Http.to(two.two.target) as other:
        yield one, other
        await asyncio.gather(*(other.delete(f"{SERVICES}/{each}") for each in await names(other)))


async def names(http: Http) -> list[str]:
    """Of those that the tests have made."""
    found = [each["metadata"]["name"] for each in (await http.get(SERVICES)).expect(200)["items"]]
    return [each for each in found if each != "kubernetes"]


async def test_both_servers_are_behind_the_service_of_the_servers(both: tuple[Http, Http], two: Pair) -> None:
    """Each by its own port here; the second is in it as soon as the first has looked again."""
    ports = {int(each.target.url.rpartition(":")[2]) for each in (two.one, two.two)}
    path = "/api/v1/namespaces/default/endpoints/kubernetes"
    for _ in range(600):
        subsets = (await both[0].get(path)).expect(200)["subsets"]
        if {port["port"] for each in subsets for port in each["ports"]} == ports:
            break
        await asyncio.sleep(0.1)
    assert {port["port"] for each in subsets for port in each["ports"]} == ports
    slices = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices"
    found = (await both[1].get(slices)).expect(200)["items"]
    assert {each["ports"][0]["port"] for each in found} == ports


def service(name: str, *, node_port: int = 0, **spec: Any) -> dict[str, Any]:
    port: dict[str, Any] = {"port": 80}
    if node_port:
        port["nodePort"] = node_port
        spec["type"] = "NodePort"
    return {"metadata": {"name": name}, "spec": {"ports": [port], **spec}}


async def given(http: Http) -> Counter[str | int]:
    """How many services have each address and each node port."""
    found: Counter[str | int] = Counter()
    for each in (await http.get(SERVICES)).expect(200)["items"]:
        found[each["spec"]["clusterIP"]] += 1
        found.update(port["nodePort"] for port in each["spec"]["ports"] if "nodePort" in port)
    return found


async def test_what_both_are_asked_for_one_gives(both: tuple[Http, Http]) -> None:
    outcomes, refusals = [], []
    for n in range(ROUNDS):
        answers = await asyncio.gather(
            *(http.post(SERVICES, contested(n, side)) for side, http in enumerate(both))
        )
        outcomes.append(sorted(answer.status for answer in answers))
        refusals += [answer.message for answer in answers if answer.status == 422]
    assert outcomes == [[201, 422]] * ROUNDS
    assert all("is already allocated" in message for message in refusals)
    assert set((await given(both[0])).values()) == {1}


def contested(n: int, side: int) -> dict[str, Any]:
    """A service that asks for what the other side asks for too: an address, or a port at an address of its own."""
    if n % 2:
        return service(f"s{n}-{side}", clusterIP=f"127.96.0.{n + 1}")
    return service(f"s{n}-{side}", clusterIP=f"127.96.0.{ROUNDS + 2 + n + side}", node_port=30000 + n)


async def test_a_range_is_given_out_to_its_end_and_no_further(both: tuple[Http, Http]) -> None:
    async def create(n: int) -> Answer:
        # On a busy machine one of many writers may lose its turn so often that it is asked to try again.
        for _ in range(10):
            answer = await both[n % 2].post(SERVICES, service(f"s{n}", type="NodePort"))
            if answer.status != 503:
                break
        return answer

    answers = await asyncio.gather(*map(create, range(ADDRESSES + 20)))
    made = [answer for answer in answers if answer.status == 201]
    refused = [answer for answer in answers if answer.status != 201]
    counted = await given(both[1])
    assert set(counted.values()) == {1}
    assert {answer.status for answer in refused} == {422}
    assert all("belong to services" in answer.message for answer in refused)
    assert len(made) == ADDRESSES


async def test_what_is_freed_at_one_can_be_had_at_the_other(both: tuple[Http, Http]) -> None:
    one, other = both
    for n in range(ROUNDS):
        writer, freer = (one, other) if n % 2 else (other, one)
        (await writer.post(SERVICES, service(f"s{n}", clusterIP="127.96.0.9"))).expect(201)
        (await freer.delete(f"{SERVICES}/s{n}")).expect(200)
    assert await names(one) == []


async def test_a_fenced_write_is_fenced_and_takes_its_turn(both: tuple[Http, Http]) -> None:
    one, other = both
    leases = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
    lease = {"metadata": {"name": "leader"}, "spec": {"holderIdentity": "me", "leaseTransitions": 3}}
    (await one.post(leases, lease)).expect(201)
    (await one.post(SERVICES, service("first"))).expect(201)
    good, late = {"Pilothouse-Fence": "default/leader/3"}, {"Pilothouse-Fence": "default/leader/2"}
    assert (await other.send("POST", SERVICES, service("mine"), headers=good)).status == 201
    refused = await one.send("POST", SERVICES, service("late"), headers=late)
    assert (refused.status, refused.reason) == (409, "Fenced")
    assert sorted(await names(other)) == ["first", "mine"]
    (await one.delete(f"{leases}/leader")).expect(200)
