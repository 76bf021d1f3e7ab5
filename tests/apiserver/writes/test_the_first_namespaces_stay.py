from __future__ import annotations

import pytest
from tests.kit.core import CoreServer


@pytest.mark.parametrize("name", ["default", "kube-system", "kube-public"])
def test_a_namespace_that_all_rely_on_can_not_be_deleted(server: CoreServer, name: str) -> None:
    assert server.send("DELETE", f"/api/v1/namespaces/{name}").status == 403


def test_the_namespace_of_node_leases_can_be_deleted() -> None:
    with CoreServer() as own:
        gone = own.send("DELETE", "/api/v1/namespaces/kube-node-lease").expect(200)
        assert gone["status"]["phase"] == "Terminating"
