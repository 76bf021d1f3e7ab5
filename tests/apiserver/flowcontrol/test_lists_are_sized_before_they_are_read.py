from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.kit.core import CoreServer

from pilothouse.apiserver.endpoints.request_info import locate
from pilothouse.apiserver.flowcontrol.list_estimate import FEW, ListEstimate

MANY = FEW + 100
MAPS = "/api/v1/namespaces/default/configmaps"


@pytest.fixture(scope="module")
def sizing() -> Iterator[ListEstimate]:
    """Of a server with many config maps in one namespace."""
    with CoreServer() as server:
        for number in range(MANY):
            server.send("POST", MAPS, {"metadata": {"name": f"m-{number}"}}).expect(201)
        server.settle()
        yield ListEstimate(server.core.catalog, server.core.cache)


@pytest.mark.parametrize(
    ("path", "query", "expected"),
    [
        (MAPS, "", MANY),
        ("/api/v1/configmaps", "", MANY),
        ("/api/v1/configmaps", "limit=50", 50),
        ("/api/v1/configmaps", "limit=999999", MANY),
        ("/api/v1/configmaps", "limit=0", MANY),
        ("/api/v1/configmaps", "limit=many", MANY),
        ("/api/v1/configmaps", "limit=" + "9" * 5000, MANY),
        ("/api/v1/configmaps", "limit=٣", MANY),
        ("/api/v1/namespaces/other/configmaps", "", 0),
        ("/api/v1/namespaces", "", 4),
        ("/apis/made.up/v1/things", "", 0),
        ("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", "", 0),
    ],
)
def test_the_size_is_that_of_what_would_be_read(
    sizing: ListEstimate, path: str, query: str, expected: int
) -> None:
    assert sizing.size_of(locate(path), query) == expected
