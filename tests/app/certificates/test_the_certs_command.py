"""`pilothouse certs` beside a server, and without one."""

from __future__ import annotations

import json
import ssl
from pathlib import Path
from typing import Any

import pytest
from tests.cli.running import Server, pilothouse
from tests.kit.etcd import EtcdServer


def certs(*command: str, data: Path) -> str:
    done = pilothouse("certs", *command, "--data", str(data))
    assert done.returncode == 0, done.stderr
    return done.stdout


def refused(*command: str) -> str:
    done = pilothouse("certs", *command)
    assert done.returncode == 1, done.stdout
    return done.stderr


def reads(server: Server, folder: Path, *, trust: bytes) -> int:
    """The status of a GET with the folder's administrator, trusting these authorities."""
    import urllib.request

    context = ssl.create_default_context(cadata=trust.decode())
    context.load_cert_chain(folder / "admin.crt", folder / "admin.key")
    with urllib.request.urlopen(f"{server.url}/api/v1/namespaces", context=context, timeout=30) as answer:
        return int(answer.status)


def listed(data: Path) -> dict[str, dict[str, Any]]:
    return {each["file"]: each for each in json.loads(certs("list", "-o", "json", data=data))}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a server that has run."""
    folder = tmp_path_factory.mktemp("certs") / "data"
    with Server(folder) as server:
        server.stop()
    return folder


def test_every_certificate_is_listed(data: Path) -> None:
    found = listed(data)
    assert set(found) == {"ca.crt", "apiserver.crt", "admin.crt", "controller-manager.crt", "peer.crt"}
    assert found["ca.crt"]["authority"] is True
    assert found["admin.crt"]["subject"] == "CN=admin,O=system:masters"
    assert found["admin.crt"]["issuer"] == "CN=pilothouse-ca"
    assert "127.0.0.1" in found["apiserver.crt"]["names"]
    assert found["apiserver.crt"]["daysLeft"] == 364
    table = certs("list", data=data).splitlines()
    assert table[0].split()[:3] == ["FILE", "SUBJECT", "ISSUER"]
    assert len(table) == 1 + len(found)


def test_a_file_that_is_no_certificate_is_listed_as_such(data: Path, tmp_path: Path) -> None:
    folder = tmp_path / "data"
    (folder / "pki").mkdir(parents=True)
    (folder / "format").write_text("1\n")
    (folder / "pki" / "odd.crt").write_text("not a certificate")
    assert "not a certificate" in certs("list", data=folder)
    assert "not a certificate" in listed(folder)["odd.crt"]["problem"]


def test_renewing_makes_new_ones_of_the_same_kind(data: Path) -> None:
    before = {name: (data / "pki" / name).read_bytes() for name in ("ca.crt", "admin.crt", "apiserver.crt")}
    facts = listed(data)
    config = json.loads((data / "admin.kubeconfig").read_text())
    assert (
        certs("renew", data=data) == "renewed: apiserver.crt, admin.crt, controller-manager.crt, peer.crt\n"
    )
    for name in ("admin.crt", "apiserver.crt"):
        assert (data / "pki" / name).read_bytes() != before[name]
        assert listed(data)[name]["names"] == facts[name]["names"]
        assert listed(data)[name]["subject"] == facts[name]["subject"]
    assert (data / "pki" / "ca.crt").read_bytes() == before["ca.crt"]
    renewed = json.loads((data / "admin.kubeconfig").read_text())
    assert renewed["clusters"] == config["clusters"]
    assert renewed["users"] != config["users"]
    with Server(data) as server:
        assert server.get("/api/v1/namespaces").status == 200


def test_folders_that_are_none_are_refused(tmp_path: Path) -> None:
    assert "is not a data folder" in refused("list", "--data", str(tmp_path))
    assert "is not a data folder" in refused("rotate-ca", "prepare", "--data", str(tmp_path / "none"))
    (tmp_path / "format").write_text("1\n")
    assert "there is no authority" in refused("renew", "--data", str(tmp_path))
    assert "there is no authority" in refused("rotate-ca", "prepare", "--data", str(tmp_path))


def test_the_authority_of_a_stopped_server_is_exchanged(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with Server(data) as server:
        server.stop()
    old = (data / "pki" / "ca.crt").read_bytes()
    assert "the next step is prepare" in refused("rotate-ca", "switch", "--data", str(data))

    said = certs("rotate-ca", "prepare", data=data)
    assert "the next step is switch" in said
    assert "ca-next.crt" in said
    new = (data / "pki" / "ca-next.crt").read_bytes()
    with Server(data) as server:
        assert reads(server, data / "pki", trust=old) == 200

    certs("rotate-ca", "switch", data=data)
    assert "was not signed by the new authority" in refused("rotate-ca", "finish", "--data", str(data))
    with Server(data) as server:
        assert reads(server, data / "pki", trust=new) == 200
        assert server.get("/api/v1/namespaces").status == 200

    assert "there is one authority" in certs("rotate-ca", "finish", data=data)
    assert not list((data / "pki").glob("ca-*"))
    assert (data / "pki" / "ca.crt").read_bytes() == new
    with Server(data) as server:
        assert reads(server, data / "pki", trust=new) == 200


@pytest.mark.etcd
def test_servers_on_one_etcd_exchange_their_authority_together(tmp_path: Path) -> None:
    etcd = EtcdServer.start(tmp_path / "etcd")
    try:
        flags = ("--store", "etcd", "--etcd-servers", etcd.endpoint)
        one, two = tmp_path / "one", tmp_path / "two"
        with Server(one, *flags), Server(two, *flags):
            pass
        old = (one / "pki" / "ca.crt").read_bytes()
        assert "is shared with other servers and kept in etcd" in refused(
            "rotate-ca", "prepare", "--data", str(one)
        )
        step = ("certs", "rotate-ca")
        assert pilothouse(*step, "prepare", "--data", str(one), *flags).returncode == 0
        assert pilothouse(*step, "switch", "--data", str(one), *flags).returncode == 0
        with Server(one, *flags) as first, Server(two, *flags) as second:
            new = (one / "pki" / "ca.crt").read_bytes()
            assert new != old
            assert (two / "pki" / "ca.crt").read_bytes() == new
            for server in (first, second):
                for folder in (one, two):
                    assert reads(server, folder / "pki", trust=new) == 200
        assert pilothouse(*step, "finish", "--data", str(one), *flags).returncode == 0
        with Server(two, *flags) as second:
            assert reads(second, one / "pki", trust=new) == 200
            assert not (two / "pki" / "ca-previous.crt").exists()
    finally:
        etcd.stop()


@pytest.mark.etcd
def test_an_etcd_without_an_authority_is_told(tmp_path: Path) -> None:
    etcd = EtcdServer.start(tmp_path / "etcd")
    try:
        (tmp_path / "data").mkdir()
        (tmp_path / "data" / "format").write_text("1\n")
        where = ("--data", str(tmp_path / "data"), "--store", "etcd", "--etcd-servers", etcd.endpoint)
        assert "no authority in that etcd" in refused("rotate-ca", "prepare", *where)
    finally:
        etcd.stop()
