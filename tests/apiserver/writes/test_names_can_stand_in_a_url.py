"""Kinds whose names are nearly free still can't be called something that no URL leads to."""

from __future__ import annotations

import pytest
from tests.kit.core import CoreServer

ROLES = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles"
REQUESTS = "/apis/certificates.k8s.io/v1/certificatesigningrequests"


@pytest.mark.parametrize("name", ["a/b", "..", ".", "a%2fb", "a\nb", "a\x00", "a\x7f", "x" * 1025, "é" * 600])
def test_such_names_are_refused(server: CoreServer, name: str) -> None:
    before = server.revision
    for collection in (ROLES, REQUESTS):
        status = server.send("POST", collection, {"metadata": {"name": name}}).expect(422)
        assert "metadata.name" in [cause["field"] for cause in status["details"]["causes"]]
    assert server.revision == before


@pytest.mark.parametrize("name", ["system:node", "A b", "é", "a=b,c\\d"])
def test_free_names_are_found_again(server: CoreServer, name: str) -> None:
    server.send("POST", ROLES, {"metadata": {"name": name}, "rules": []}).expect(201)
    assert server.send("GET", f"{ROLES}/{name}").expect(200)["metadata"]["name"] == name
    server.send("DELETE", f"{ROLES}/{name}").expect(200)
