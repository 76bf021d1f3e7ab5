from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilothouse.api.registry import resources
from pilothouse.apiserver.discovery.catalog import KindCatalog
from pilothouse.apiserver.metrics.request_metrics import RequestCounters, RequestSeries
from pilothouse.apiserver.server.messages import Request

CATALOG = KindCatalog(resources())


def seen(request: Request, *, streaming: bool = False) -> RequestSeries:
    requests = RequestCounters(CATALOG)
    requests.observe(request, 200, streaming, 0.001)
    (series,) = requests.series()
    return series


@pytest.mark.parametrize(
    ("method", "path", "query", "expected"),
    [
        ("GET", "/api/v1/namespaces/t/pods/a", "", ("GET", "", "v1", "pods", "", "resource")),
        ("HEAD", "/api/v1/namespaces/t/pods/a", "", ("GET", "", "v1", "pods", "", "resource")),
        ("GET", "/api/v1/namespaces/t/pods", "", ("LIST", "", "v1", "pods", "", "namespace")),
        ("GET", "/api/v1/pods", "limit=5", ("LIST", "", "v1", "pods", "", "cluster")),
        ("GET", "/api/v1/pods", "watch=1", ("WATCH", "", "v1", "pods", "", "cluster")),
        ("POST", "/api/v1/namespaces/t/pods", "", ("POST", "", "v1", "pods", "", "resource")),
        ("PUT", "/apis/apps/v1/namespaces/t/statefulsets/a/scale", "", ("PUT", "apps", "v1", "statefulsets", "scale", "resource")),
        ("DELETE", "/api/v1/namespaces/t/pods", "", ("DELETECOLLECTION", "", "v1", "pods", "", "namespace")),
        ("DELETE", "/api/v1/namespaces/t/pods/a", "", ("DELETE", "", "v1", "pods", "", "resource")),
        ("POST", "/api/v1/namespaces/t/pods/a/eviction", "", ("POST", "", "v1", "pods", "eviction", "resource")),
        ("GET", "/api/v1/namespaces/t/pods/a/nonsense", "", ("GET", "", "", "", "", "")),
        ("GET", "/healthz", "", ("GET", "", "", "", "", "")),
        ("GET", "/apis/made.up/v1/things", "", ("LIST", "", "", "", "", "")),
        ("BREW", "/api/v1/pods", "", ("other", "", "", "", "", "")),
    ],
)  # fmt: skip
def test_requests_have_kubernetes_labels(
    method: str, path: str, query: str, expected: tuple[str, ...]
) -> None:
    found = seen(Request(method, path, query))
    assert (
        found.verb,
        found.group,
        found.version,
        found.resource,
        found.subresource,
        found.scope,
    ) == expected


def test_an_apply_is_no_patch() -> None:
    path = "/api/v1/namespaces/t/pods/a"
    applied = Request("PATCH", path, headers={"Content-Type": "application/apply-patch+yaml"})
    merged = Request("PATCH", path, headers={"Content-Type": "application/merge-patch+json"})
    assert (seen(applied).verb, seen(merged).verb) == ("APPLY", "PATCH")


def test_the_length_of_a_watch_is_not_the_time_of_a_request() -> None:
    found = seen(Request("GET", "/api/v1/pods", "watch=1"), streaming=True)
    assert dict(found.codes) == {200: 1}
    assert sum(found.seconds.counts) == 0


def test_statuses_and_times_add_up() -> None:
    requests = RequestCounters(CATALOG)
    for status, seconds in ((200, 0.002), (200, 0.3), (404, 0.002)):
        requests.observe(Request("GET", "/api/v1/namespaces/t/pods/a"), status, False, seconds)
    (series,) = requests.series()
    assert dict(series.codes) == {200: 2, 404: 1}
    assert series.seconds.sum == pytest.approx(0.304)
    assert sum(series.seconds.counts) == 3


ASKED = RequestCounters(CATALOG)
"""One for all examples, so that what they leave behind adds up."""
VERBS = {
    *("GET", "LIST", "WATCH", "POST", "PUT", "PATCH", "APPLY", "DELETE", "DELETECOLLECTION", "OPTIONS"),
    "other",
}
segment = st.text(st.sampled_from("ab/v1podsnamespaces.%"), max_size=20)
segments = st.sampled_from(["api", "apis", "v1", "apps", "pods", "namespaces", "watch"]) | segment


@given(st.text(max_size=8), st.lists(segments, max_size=8), st.booleans())
def test_nobody_can_make_labels_up(method: str, parts: list[str], streaming: bool) -> None:
    ASKED.observe(Request(method, "/" + "/".join(parts)), 404, streaming, 0.001)
    known = {kind.plural for resource in resources() for kind in resource.kinds}
    assert {series.resource for series in ASKED.series()} <= {"", *known}
    assert {series.verb for series in ASKED.series()} <= VERBS
