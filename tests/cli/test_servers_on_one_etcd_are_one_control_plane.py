from __future__ import annotations

import ssl
import urllib.request
from pathlib import Path

import pytest
from tests.cli.running import Server
from tests.kit.etcd import EtcdServer


@pytest.mark.etcd
def test_each_accepts_what_another_signed(tmp_path: Path) -> None:
    etcd = EtcdServer.start(tmp_path / "etcd")
    try:
        flags = ("--store", "etcd", "--etcd-servers", etcd.endpoint)
        with Server(tmp_path / "one", *flags) as one, Server(tmp_path / "two", *flags) as two:
            pki = tmp_path / "one" / "pki"
            for file in ("ca.crt", "ca.key", "token-signing.key"):
                assert (pki / file).read_bytes() == (tmp_path / "two" / "pki" / file).read_bytes()
            context = ssl.create_default_context(cafile=pki / "ca.crt")
            context.load_cert_chain(pki / "admin.crt", pki / "admin.key")
            for server in (one, two):
                with urllib.request.urlopen(
                    f"{server.url}/api/v1/namespaces/default", context=context
                ) as answer:
                    assert answer.status == 200
            assert b"/pilothouse/" not in one.get("/api/v1/secrets").body
    finally:
        etcd.stop()
