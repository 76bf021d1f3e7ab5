"""`pilothouse audit` against a running server, and what that server says when its log can't be written."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.kit.pilothouse_server import PilothouseServer
from tests.kit.processes import Process


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PilothouseServer]:
    running = PilothouseServer(tmp_path_factory.mktemp("audited"), "memory")
    try:
        for name in ("a", "b", "b"):
            running.target.fetch(f"/api/v1/namespaces/default/configmaps/{name}")
        yield running
    finally:
        running.close()


def argv(server: PilothouseServer, *args: str) -> list[str]:
    return [sys.executable, "-m", "pilothouse", "audit", "--kubeconfig", str(server.target.kubeconfig), *args]


def audit(server: PilothouseServer, *args: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(argv(server, *args), capture_output=True, text=True, timeout=60)


def test_a_table_tells_who_did_what_to_what(server: PilothouseServer) -> None:
    ran = audit(server, "--object", "configmap", "--since", "1h")

    head, *rows = ran.stdout.splitlines()
    assert (ran.returncode, ran.stderr) == (0, "")
    assert head.split() == ["TIME", "USER", "VERB", "OBJECT", "CODE", "FROM", "SERVED", "BY"]
    assert [row.split()[1:7] for row in rows] == [
        ["admin", "get", "default:", f"configmaps/{name}", "404", "127.0.0.1"] for name in ("a", "b", "b")
    ]


def test_json_is_a_record_a_line(server: PilothouseServer) -> None:
    ran = audit(server, "--object", "cm/b", "--user", "admin", "--verb", "get", "-n", "default", "-o", "json")

    records = [json.loads(line) for line in ran.stdout.splitlines()]
    assert [record["objectRef"]["name"] for record in records] == ["b", "b"]


def test_the_newest_are_shown_when_there_are_too_many(server: PilothouseServer) -> None:
    ran = audit(server, "--object", "configmaps", "--limit", "1", "-o", "json")

    assert len(ran.stdout.splitlines()) == 1


@pytest.mark.parametrize("output", ["table", "json"])
def test_nothing_that_matches_is_said_and_is_no_error(server: PilothouseServer, output: str) -> None:
    ran = audit(server, "--object", "nosuch", "-o", output)

    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "", "No audit records found.\n")


def test_following_goes_on(server: PilothouseServer, tmp_path: Path) -> None:
    following = Process.start(
        "pilothouse audit", argv(server, "-f", "-o", "json", "--object", "cm/later"), log=tmp_path / "log"
    )
    try:
        path = "/api/v1/namespaces/default/configmaps/later"
        following.wait_until(lambda: server.target.fetch(path) and "later" in following.output(), seconds=30)
    finally:
        following.kill()


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["--since", "yesterday"], "Error: since: 'yesterday' is not a duration such as 90s"),
        (["--kubeconfig", "/nowhere"], "'/nowhere' does not exist"),
    ],
)
def test_mistakes_are_told_in_a_line(server: PilothouseServer, args: list[str], says: str) -> None:
    ran = audit(server, *args)

    assert ran.returncode != 0
    assert says in ran.stderr
    assert "Traceback" not in ran.stderr


def test_a_server_that_keeps_no_records_says_so(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "pilothouse", "apiserver", "--data", str(tmp_path / "data")]
    process = Process.start(
        "pilothouse apiserver",
        [*command, "--store", "memory", "--listen", "127.0.0.1:0"],
        log=tmp_path / "log",
    )
    try:
        process.wait_until(lambda: "is ready at" in process.output(), seconds=30)
        config = tmp_path / "data" / "admin.kubeconfig"
        ran = subprocess.run(
            [sys.executable, "-m", "pilothouse", "audit", "--kubeconfig", str(config)],
            capture_output=True,
            text=True,
            timeout=60,
        )
    finally:
        process.end()

    assert ran.returncode == 1
    assert "no audit records are kept here" in ran.stderr


def test_a_full_disk_shows_in_readyz_and_stops_nobody(tmp_path: Path) -> None:
    log = tmp_path / "full.log"
    log.symlink_to("/dev/full")
    server = PilothouseServer(tmp_path / "server", "memory", flags=["--audit-log-path", str(log)])
    try:
        path = "/api/v1/namespaces/default/configmaps/none"
        server.process.wait_until(
            lambda: server.target.fetch(path) == 404 and server.target.fetch("/readyz/audit") == 500,
            seconds=30,
        )

        assert server.target.fetch("/readyz") == 500
        assert server.target.fetch("/livez") == 200
        assert server.target.fetch(path) == 404

        log.unlink()
        server.process.wait_until(lambda: server.target.fetch("/readyz") == 200, seconds=30)
        assert "configmaps/none" in log.read_text()
    finally:
        server.close()
