"""Whatever pods come, go and get ready: after each decision a service has exactly its pods, and nothing is written twice."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.kit.scheduling_objects import objects, pod, world

from pilothouse.api.kind_names import Endpoints, EndpointSlice
from pilothouse.api.objects import Object, Tree
from pilothouse.controllers.endpoints import endpoints
from pilothouse.runtime.intents import Create, Delete, Update

SERVICE = {
    "apiVersion": "v1",
    "kind": "Service",
    "metadata": {"name": "db", "namespace": "default", "uid": "s"},
    "spec": {"selector": {"app": "db"}, "ports": [{"name": "sql", "port": 5432}]},
}
STATES = ("ready", "not ready", "going", "ended", "no address", "stranger")


def a_pod(number: int, state: str) -> Tree:
    tree = pod(f"p{number}", on="n1", labels={"app": "other" if state == "stranger" else "db"})
    if state == "going":
        tree["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    ready = "False" if state == "not ready" else "True"
    tree["status"] = {
        "phase": "Succeeded" if state == "ended" else "Running",
        "conditions": [{"type": "Ready", "status": ready}],
        **({} if state == "no address" else {"podIP": f"10.0.{number // 200}.{number % 200 + 1}"}),
    }
    return tree


@settings(deadline=None, max_examples=80)
@given(
    rounds=st.lists(st.dictionaries(st.integers(0, 230), st.sampled_from(STATES), max_size=130), max_size=4)
)
def test_whatever_pods_do(rounds: list[dict[int, str]]) -> None:
    stored: dict[tuple[str, str], Object] = {}
    (service,) = objects([SERVICE])
    for states in rounds:
        pods = objects(a_pod(number, state) for number, state in states.items())
        for intent in endpoints(service, world(endpoints, [service, *pods, *stored.values()])):
            if isinstance(intent, Create | Update):
                (one,) = objects([_fresh(intent.object)])
                stored[one.kind, one.name] = one
            else:
                assert isinstance(intent, Delete)
                del stored[intent.seen.kind, intent.seen.name]
        assert endpoints(service, world(endpoints, [service, *pods, *stored.values()])) == []

        slices = [one for one in stored.values() if one.noun == EndpointSlice]
        members = [each for one in slices for each in one["endpoints"]]
        told = {each["targetRef"]["name"]: each["conditions"]["ready"] for each in members}
        assert len(told) == len(members)
        assert told == {
            f"p{number}": state == "ready"
            for number, state in states.items()
            if state in ("ready", "not ready", "going")
        }
        assert all(0 < len(one["endpoints"]) <= 100 for one in slices)
        (whole,) = (one for one in stored.values() if one.noun == Endpoints)
        addresses = [each for subset in whole["subsets"] for each in subset.get("addresses", ())]
        ready = {f"p{number}" for number, state in states.items() if state == "ready"}
        assert {each["targetRef"]["name"] for each in addresses} == ready


def _fresh(tree: Tree) -> Tree:
    """The next version of it."""
    kept = {name: value for name, value in tree["metadata"].items() if name != "resourceVersion"}
    return {**tree, "metadata": kept}


def test_an_address_of_another_family_does_not_spoil_the_others() -> None:
    six, two = a_pod(1, "ready"), a_pod(2, "ready")
    six["status"] |= {"podIP": "fd00::1234", "podIPs": [{"ip": "fd00::1234"}]}
    both = a_pod(3, "ready")
    both["status"] |= {"podIP": "fd00::3", "podIPs": [{"ip": "fd00::3"}, {"ip": "10.0.0.4"}]}
    (service,) = objects([SERVICE])
    intents = endpoints(service, world(endpoints, [service, *objects([six, two, both])]))
    (slice,) = (
        one.object for one in intents if isinstance(one, Create) and one.object["kind"] == "EndpointSlice"
    )
    assert [one["addresses"] for one in slice["endpoints"]] == [["10.0.0.3"], ["10.0.0.4"]]
