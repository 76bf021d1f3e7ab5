"""A subresource that a kind doesn't have is told as such: the object itself may well be there."""

from __future__ import annotations

import pytest
from tests.api.navigator.clusters import elasticsearch
from tests.kit.core import CoreServer

GROUP = "navigator.jetstack.io"
CLUSTERS = f"/apis/{GROUP}/v1beta1/namespaces/default/elasticsearchclusters"
MERGE = "application/merge-patch+json"


@pytest.mark.parametrize("subresource", ["scale", "finalize"])
def test_the_kind_is_said_to_lack_it(server: CoreServer, subresource: str) -> None:
    cluster = {
        "apiVersion": f"{GROUP}/v1beta1",
        "kind": "ElasticsearchCluster",
        "metadata": {"name": "demo"},
        "spec": elasticsearch(),
    }
    server.send("POST", CLUSTERS, cluster).expect(201)
    path = f"{CLUSTERS}/demo/{subresource}"
    for answer in (
        server.send("GET", path),
        server.send("PATCH", path, {"spec": {"replicas": 3}}, type=MERGE),
    ):
        status = answer.expect(404)
        assert status["reason"] == "NotFound"
        assert status["message"] == (
            "the server could not find the requested resource: "
            f'elasticsearchclusters.{GROUP} have no subresource "{subresource}"'
        )
        assert status["details"] == {"group": GROUP, "kind": "elasticsearchclusters"}


def test_an_object_that_is_not_there_is_still_named(server: CoreServer) -> None:
    status = server.send("GET", f"{CLUSTERS}/demo/status").expect(404)
    assert status["details"]["name"] == "demo"
