"""Whatever a refusal is about, it comes before the write, not after."""

from __future__ import annotations

import pytest
from tests.kit.core import CoreServer

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"


@pytest.mark.parametrize(
    ("accept", "query", "status"), [("text/html", "", 406), (TABLE, "includeObject=Everything", 400)]
)
def test_an_answer_that_cannot_be_given(server: CoreServer, accept: str, query: str, status: int) -> None:
    server.send("POST", CONFIG_MAPS, {"metadata": {"name": "a"}}).expect(201)
    before = server.revision
    for method, path, body in (
        ("POST", CONFIG_MAPS, {"metadata": {"name": "b"}}),
        ("PUT", f"{CONFIG_MAPS}/a", {"metadata": {"name": "a"}, "data": {"x": "y"}}),
        ("DELETE", f"{CONFIG_MAPS}/a", None),
        ("DELETE", CONFIG_MAPS, None),
    ):
        server.send(method, path, body, accept=accept, query=query).expect(status)
    patch = {"data": {"x": "y"}}
    server.send(
        "PATCH",
        f"{CONFIG_MAPS}/a",
        patch,
        type="application/merge-patch+json",
        accept=accept,
        query=query,
    ).expect(status)
    assert server.revision == before


def test_an_eviction_with_a_wrong_precondition_spends_nothing(server: CoreServer) -> None:
    pods, budgets = (
        "/api/v1/namespaces/default/pods",
        "/apis/policy/v1/namespaces/default/poddisruptionbudgets",
    )
    pod = {
        "metadata": {"name": "a", "labels": {"app": "a"}},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    }
    server.send("POST", pods, pod).expect(201)
    running = {"status": {"phase": "Running"}}
    server.send("PATCH", f"{pods}/a/status", running, type="application/merge-patch+json").expect(200)
    budget = {"metadata": {"name": "b"}, "spec": {"selector": {"matchLabels": {"app": "a"}}}}
    server.send("POST", budgets, budget).expect(201)
    room = {"status": {"observedGeneration": 1, "disruptionsAllowed": 1}}
    server.send("PATCH", f"{budgets}/b/status", room, type="application/merge-patch+json").expect(200)
    before = server.revision
    eviction = {"metadata": {"name": "a"}, "deleteOptions": {"preconditions": {"uid": "another"}}}
    server.send("POST", f"{pods}/a/eviction", eviction).expect(409)
    assert server.revision == before
    assert server.send("GET", f"{budgets}/b").json["status"]["disruptionsAllowed"] == 1
