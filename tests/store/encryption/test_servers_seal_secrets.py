"""A server with encryption keys, as its users and its operator see it."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.cli.running import Server, pilothouse
from tests.kit.etcd import EtcdServer
from tests.kit.http import Http
from tests.kit.pilothouse_server import PilothouseServer

SECRETS = "/api/v1/namespaces/default/secrets"
PASSWORD = "correct horse battery staple"
OLD = f"old:{base64.b64encode(bytes(32)).decode()}"
NEW = f"new:{base64.b64encode(bytes(range(32))).decode()}"


def secret(name: str) -> dict[str, Any]:
    return {"metadata": {"name": name}, "stringData": {"password": PASSWORD}}


class Keys:
    """A key file that changes."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def hold(self, *lines: str) -> tuple[str, str]:
        self._file.write_text("\n".join(lines) + "\n")
        return "--encryption-key-file", str(self._file)


@pytest.fixture(params=["sqlite", pytest.param("etcd", marks=pytest.mark.etcd)])
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[PilothouseServer]:
    server = PilothouseServer(tmp_path, request.param)
    yield server
    server.close()


@pytest.fixture
def keys(tmp_path: Path) -> Keys:
    return Keys(tmp_path / "keys.txt")


def told(server: PilothouseServer, *command: str) -> str:
    done = pilothouse("encryption", *command, "--kubeconfig", str(server.target.kubeconfig))
    assert done.returncode == 0, done.stderr
    return done.stdout


def on_disk(folder: Path, text: str) -> bool:
    return any(text.encode() in file.read_bytes() for file in folder.rglob("*") if file.is_file())


async def test_a_key_is_turned_on_exchanged_and_taken_out(
    server: PilothouseServer, keys: Keys, tmp_path: Path
) -> None:
    # In etcd there are two values besides: the authority, and the key that signs tokens.
    own = 2 if server.target.name == "etcd" else 0
    async with Http.to(server.target) as http:
        (await http.post(SECRETS, secret("plain"))).expect(201)
    assert told(server, "status").splitlines()[-1].split() == ["(none)", str(1 + own), "not", "encrypted"]

    server.restart(*keys.hold(OLD))
    async with Http.to(server.target) as http:
        read = (await http.get(f"{SECRETS}/plain")).expect(200)
        assert base64.b64decode(read["data"]["password"]).decode() == PASSWORD
        (await http.post(SECRETS, secret("sealed"))).expect(201)
    assert f"{1 + own} of {2 + own} values were rewritten" in told(server, "rewrite")

    server.restart(*keys.hold(NEW, OLD))
    status = told(server, "status").split()
    assert status[2:] == ["new", "0", "writes", "old", str(2 + own), "reads"]
    assert f"{2 + own} of {2 + own} values were rewritten" in told(server, "rewrite")
    assert f"0 of {2 + own} values were rewritten" in told(server, "rewrite")

    server.restart(*keys.hold(NEW))
    async with Http.to(server.target) as http:
        listed = (await http.get(SECRETS)).expect(200)
        found = {item["metadata"]["name"]: item["data"]["password"] for item in listed["items"]}
    assert found["plain"] == found["sealed"]
    assert told(server, "status").split()[2:] == ["new", str(2 + own), "writes"]


@pytest.mark.etcd
def test_the_keys_of_a_control_plane_in_etcd_are_sealed_too(tmp_path: Path, keys: Keys) -> None:
    etcd = EtcdServer.start(tmp_path / "etcd")
    try:
        where = ("--store", "etcd", "--etcd-servers", etcd.endpoint)
        sealing = keys.hold(NEW)
        with Server(tmp_path / "one", *where, *sealing) as one:
            assert one.get("/api/v1/namespaces").status == 200
            file = tmp_path / "all.backup"
            done = pilothouse("backup", str(file), "--kubeconfig", str(one.kubeconfig))
            assert "To restore it, these keys are needed: new" in done.stdout, done.stderr
        assert not on_disk(tmp_path / "etcd", "PRIVATE KEY")
        assert b"PRIVATE KEY" not in file.read_bytes()

        start = ("apiserver", "--data", str(tmp_path / "two"), "--listen", "127.0.0.1:0", *where)
        done = pilothouse(*start)
        assert done.returncode == 1
        assert "is sealed with the key 'new', which this server was not given" in done.stderr

        step = ("certs", "rotate-ca", "prepare", "--data", str(tmp_path / "one"), *where)
        assert "is sealed with the key 'new'" in pilothouse(*step).stderr
        assert pilothouse(*step, *sealing).returncode == 0
        assert not on_disk(tmp_path / "etcd", "PRIVATE KEY")

        restore = ("restore", str(file), "--data", str(tmp_path / "three"))
        done = pilothouse(*restore)
        assert done.returncode == 1
        assert "can't be decrypted with --encryption-key-file: it is sealed with the key 'new'" in done.stderr
        assert not (tmp_path / "three").exists()
        done = pilothouse(*restore, *sealing)
        assert done.returncode == 0, done.stderr
        ca = (tmp_path / "one" / "pki" / "ca.crt").read_bytes()
        assert (tmp_path / "three" / "pki" / "ca.crt").read_bytes() == ca
    finally:
        etcd.stop()


async def test_what_is_written_never_reaches_the_disk_in_plain(
    server: PilothouseServer, keys: Keys, tmp_path: Path
) -> None:
    server.restart(*keys.hold(NEW))
    async with Http.to(server.target) as http:
        created = (await http.post(SECRETS, secret("a"))).expect(201)
        created["data"]["password"] = base64.b64encode(PASSWORD.encode() * 2).decode()
        (await http.put(f"{SECRETS}/a", created)).expect(200)
        # The same content again is no change, and a write of no consequence.
        again = (await http.put(f"{SECRETS}/a", (await http.get(f"{SECRETS}/a")).expect(200))).expect(200)
        assert (
            again["metadata"]["resourceVersion"]
            == (await http.get(f"{SECRETS}/a")).json["metadata"]["resourceVersion"]
        )
        (await http.post("/api/v1/namespaces/default/configmaps", {"metadata": {"name": "seen"}})).expect(201)
    for trace in (PASSWORD, base64.b64encode(PASSWORD.encode()).decode()[:30]):
        assert not on_disk(tmp_path, trace)


async def test_a_missing_key_is_told_and_nothing_else_suffers(
    server: PilothouseServer, keys: Keys, tmp_path: Path
) -> None:
    server.restart(*keys.hold(OLD))
    async with Http.to(server.target) as http:
        (await http.post(SECRETS, secret("lost"))).expect(201)
    server.restart(*keys.hold(NEW))
    assert "1 values are sealed with the key 'old'" in (tmp_path / "apiserver-3.log").read_text()
    async with Http.to(server.target) as http:
        lost = f"{SECRETS}/lost"
        for answer in (
            await http.get(lost),
            await http.get(SECRETS),
            await http.get(SECRETS, labelSelector="a=b"),
            await http.get(SECRETS, accept="application/json;as=Table;v=v1;g=meta.k8s.io"),
            await http.patch(lost, {"data": {"a": "Yg=="}}),
            await http.put(lost, secret("lost")),
            await http.delete(lost),
        ):
            assert answer.status == 500
            assert answer.json["reason"] == "InternalError"
            assert (
                "/registry/secrets/default/lost can't be read: it is sealed with the key 'old'"
                in answer.json["message"]
            )
        async with http.watch(SECRETS) as watch:
            event = await watch.next()
            assert (event.type, event.object["code"]) == ("ERROR", 500)
            assert "the key 'old'" in event.object["message"]
        (await http.post(SECRETS, secret("fine"))).expect(201)
        (await http.get(f"{SECRETS}/fine")).expect(200)
        assert (await http.post(SECRETS, secret("lost"))).status in (409, 500)
        (await http.get("/api/v1/namespaces/default/configmaps")).expect(200)
        assert (await http.get("/readyz")).status == 200
    assert "missing: they can't be read" in told(server, "status")
    failed = pilothouse("encryption", "rewrite", "--kubeconfig", str(server.target.kubeconfig))
    assert failed.returncode == 1
    assert "/registry/secrets/default/lost: it is sealed with the key 'old'" in failed.stderr

    server.restart(*keys.hold(NEW, OLD))
    async with Http.to(server.target) as http:
        (await http.get(lost)).expect(200)
        (await http.delete(lost)).expect(200)


def test_bad_key_files_keep_a_server_from_starting(tmp_path: Path, keys: Keys) -> None:
    (tmp_path / "data").mkdir()
    for line, said in (
        ("nonsense", "line 1: no colon"),
        ("a:aGk=", "line 1: the key has 2 bytes"),
        ("", "holds no key"),
    ):
        done = pilothouse(
            "apiserver", "--data", str(tmp_path / "data"), "--listen", "127.0.0.1:0", *keys.hold(line)
        )
        assert done.returncode == 1
        assert "--encryption-key-file" in done.stderr
        assert said in done.stderr
    done = pilothouse(
        "apiserver", "--data", str(tmp_path / "data"), "--encryption-key-file", str(tmp_path / "none")
    )
    assert done.returncode == 2


async def test_operators_paths_are_for_operators(server: PilothouseServer) -> None:
    async with Http.to(server.target) as http:
        as_somebody = {"Impersonate-User": "alice"}
        for method, path in (
            ("GET", "/pilothouse/v1/backup"),
            ("GET", "/pilothouse/v1/encryption"),
            ("POST", "/pilothouse/v1/encryption/rewrite"),
        ):
            assert (await http.send(method, path, headers=as_somebody)).status == 403
        assert (await http.send("POST", "/pilothouse/v1/backup")).status == 405
        refused = await http.send("POST", "/pilothouse/v1/encryption/rewrite")
        assert refused.status == 400
        assert "--encryption-key-file" in refused.json["message"]
