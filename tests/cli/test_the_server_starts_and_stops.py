from __future__ import annotations

import datetime
import json
import signal
import stat
from pathlib import Path

import pytest
from tests.cli.running import Server

from pilothouse.pki.authority import Authority

MANY = ("--store", "memory")


def test_it_says_in_one_line_that_it_is_ready(tmp_path: Path) -> None:
    with Server(tmp_path / "data", *MANY) as server:
        assert server.kubeconfig == tmp_path / "data" / "admin.kubeconfig"
        code, out, err = server.stop()
    assert (code, out, err) == (0, "", "")


def test_the_admin_may_do_anything(tmp_path: Path) -> None:
    with Server(tmp_path / "data", *MANY) as server:
        assert server.get("/api/v1/namespaces/default").status == 200


def test_nobody_may_do_nothing_but_look_at_health_and_version(tmp_path: Path) -> None:
    with Server(tmp_path / "data", *MANY) as server:
        for path in (
            "/healthz",
            "/livez",
            "/readyz",
            "/ready",
            "/readyz/store",
            "/readyz/cache",
            "/version",
            "/version/",
        ):
            assert server.get(path, admin=False).status == 200
        refused = server.get("/api/v1/namespaces", admin=False)
        assert refused.status == 403
        assert json.loads(refused.body)["message"] == (
            'namespaces is forbidden: User "system:anonymous" cannot list resource "namespaces" '
            'in API group "" at the cluster scope'
        )
        assert server.get("/api", admin=False).status == 403


def test_tokens_let_their_users_in(tmp_path: Path) -> None:
    tokens = tmp_path / "tokens.csv"
    tokens.write_text('root-token,root,0,"system:masters"\nalice-token,alice,1\n')
    with Server(tmp_path / "data", *MANY, "--token-auth-file", str(tokens)) as server:
        assert server.get("/api/v1/namespaces", admin=False, token="root-token").status == 200
        assert server.get("/apis", admin=False, token="alice-token").status == 200
        assert server.get("/api/v1/namespaces", admin=False, token="alice-token").status == 403
        assert server.get("/apis", admin=False, token="nonsense").status == 401


def test_secrets_on_disk_are_the_owners_alone(tmp_path: Path) -> None:
    with Server(tmp_path / "data") as server:
        files = [path for path in (tmp_path / "data").rglob("*") if path.is_file()]
        assert server.kubeconfig in files
        assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o600}
        assert stat.S_IMODE((tmp_path / "data").stat().st_mode) == 0o700


def test_a_second_start_is_the_same_control_plane(tmp_path: Path) -> None:
    keys = []
    for _ in range(2):
        with Server(tmp_path / "data") as server:
            assert server.get("/api/v1/namespaces/default").status == 200
            keys.append((tmp_path / "data" / "pki" / "ca.crt").read_bytes())
            assert server.stop(signal.SIGINT)[0] == 0
    assert keys[0] == keys[1]


def test_certificates_of_ones_own_can_be_used(tmp_path: Path) -> None:
    now = datetime.datetime.now(datetime.UTC)
    authority = Authority.make("ours", now)
    serving = authority.serving(["127.0.0.1"], now)
    (tmp_path / "tls.crt").write_bytes(serving.certificate + authority.certificate)
    (tmp_path / "tls.key").write_bytes(serving.key)
    (tmp_path / "ca.crt").write_bytes(authority.certificate)
    flags = ["--tls-cert-file", tmp_path / "tls.crt", "--tls-private-key-file", tmp_path / "tls.key"]
    flags += ["--client-ca-file", tmp_path / "ca.crt"]
    with Server(tmp_path / "data", *MANY, *map(str, flags)) as server:
        assert server.get("/api/v1/namespaces").status == 200


@pytest.mark.parametrize("flag", ["-v", "-vv"])
def test_it_logs_to_stderr_only(flag: str, tmp_path: Path) -> None:
    with Server(tmp_path / "data", *MANY, flag) as server:
        server.get("/api/v1/namespaces")
        _, out, err = server.stop()
    assert out == ""
    assert ("GET /api/v1/namespaces 200 admin" in err) == (flag == "-vv")
