"""A whole server as a process, scraped over TLS."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.apiserver.metrics.scraped import Scraped
from tests.cli.running import Server

TOKENS = 'm-token,prometheus,u1,"system:monitoring"\na-token,alice,u2,"dev"\n'
PAGES = ("/metrics", "/metrics/objects")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder: Path = tmp_path_factory.mktemp("server")
    (folder / "tokens.csv").write_text(TOKENS)
    flags = ("--token-auth-file", str(folder / "tokens.csv"), "--audit-log-path", str(folder / "audit.log"))
    with Server(folder / "data", *flags) as server:
        yield server


def scrape(server: Server, path: str) -> Scraped:
    answer = server.get(path, admin=False, token="m-token")
    assert answer.status == 200
    return Scraped.read(answer.body)


@pytest.mark.parametrize("path", PAGES)
def test_it_takes_a_role(server: Server, path: str) -> None:
    assert server.get(path).status == 200
    assert server.get(path, admin=False, token="m-token").status == 200
    assert server.get(path, admin=False, token="a-token").status == 403
    assert server.get(path, admin=False).status == 403


def test_monitoring_sees_nothing_else(server: Server) -> None:
    assert server.get("/api/v1/namespaces", admin=False, token="m-token").status == 403


def test_requests_are_counted(server: Server) -> None:
    asked = {"resource": "namespaces", "verb": "GET", "scope": "resource", "version": "v1"}

    def count(code: str) -> float:
        return sum(scrape(server, "/metrics").values("apiserver_request_total", code=code, **asked))

    found, missing = count("200"), count("404")
    server.get("/api/v1/namespaces/default")
    server.get("/api/v1/namespaces/nowhere")
    assert (count("200") - found, count("404") - missing) == (1, 1)
    page = scrape(server, "/metrics")
    timed = page.value("apiserver_request_duration_seconds_count", **asked)
    assert timed == sum(page.values("apiserver_request_total", **asked))


def test_the_scrape_itself_is_in_flight(server: Server) -> None:
    page = scrape(server, "/metrics")
    assert page.value("apiserver_current_inflight_requests", request_kind="readOnly") == 1
    placed = {"lane": "reads", "priority_level": "people"}
    assert page.value("apiserver_flowcontrol_current_executing_requests", **placed) == 1
    assert page.value("apiserver_flowcontrol_nominal_limit_seats", **placed) == 40
    assert page.values("apiserver_flowcontrol_rejected_requests_total", **placed) == [0, 0]


def test_the_store_the_cache_the_trail_and_the_process_are_in_it(server: Server) -> None:
    page = scrape(server, "/metrics")
    assert page.value("pilothouse_store_up") == 1
    assert page.value("pilothouse_cache_lag_revisions") == 0
    assert page.value("pilothouse_cache_revision") == page.value("pilothouse_store_revision") > 0
    assert page.value("pilothouse_store_call_duration_seconds_count", operation="create") > 0
    assert (
        page.value("pilothouse_store_commit_size_sum") >= page.value("pilothouse_store_commit_size_count") > 0
    )
    assert page.value("apiserver_storage_objects", resource="namespaces") == 4
    assert page.value("apiserver_audit_error_total", plugin="log") == 0
    assert page.value("process_resident_memory_bytes") > 1e7
    assert page.value("process_open_fds") <= page.value("process_max_fds")
    assert page.labels("pilothouse_build_info")["version"]


def test_the_pages_are_listed(server: Server) -> None:
    assert set(PAGES) <= set(json.loads(server.get("/").body)["paths"])
