from __future__ import annotations

from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest
import yaml

from pilothouse.client import in_cluster
from pilothouse.client.access import AccessError, Impersonation
from pilothouse.client.kubeconfig import SERVERS, KubeconfigError, find, load


def written(folder: Path, cluster: dict[str, Any], user: dict[str, Any], **context: str) -> Path:
    file = folder / "config"
    content = {
        "current-context": "here",
        "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u", **context}}],
        "clusters": [{"name": "c", "cluster": {"server": "https://10.0.0.1:6443", **cluster}}],
        "users": [{"name": "u", "user": user}],
    }
    file.write_text(yaml.safe_dump(content))
    return file


def test_files_beside_it_are_read_and_remembered(tmp_path: Path) -> None:
    for name in ("ca.crt", "me.crt", "me.key"):
        (tmp_path / name).write_text(name)
    user = {"client-certificate": "me.crt", "client-key": "me.key"}
    access = load(written(tmp_path, {"certificate-authority": "ca.crt"}, user, namespace="db"))
    assert (access.authority, access.certificate, access.key) == (b"ca.crt", b"me.crt", b"me.key")
    assert (access.certificate_file, access.key_file) == (tmp_path / "me.crt", tmp_path / "me.key")
    assert access.namespace == "db"


def test_what_is_inline_needs_no_file(tmp_path: Path) -> None:
    inline = {"certificate-authority-data": b64encode(b"pem").decode()}
    access = load(written(tmp_path, inline, {"token": "secret"}))
    assert (access.authority, access.authority_file) == (b"pem", None)
    assert (access.token, access.token_file, access.namespace) == ("secret", None, "default")


def test_further_addresses_are_those_that_are_not_the_first(tmp_path: Path) -> None:
    told = {"servers": ["https://10.0.0.1:6443", "https://10.0.0.2:6443/", "https://10.0.0.2:6443"]}
    extensions = [{"name": "minikube", "extension": {}}, {"name": SERVERS, "extension": told}]
    access = load(written(tmp_path, {"extensions": extensions}, {}))
    assert access.urls == ("https://10.0.0.1:6443", "https://10.0.0.2:6443")


def test_a_token_file_is_remembered(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("secret\n")
    access = load(written(tmp_path, {}, {"tokenFile": "token"}))
    assert (access.token, access.token_file) == ("secret", tmp_path / "token")


def test_a_login_program_is_understood(tmp_path: Path) -> None:
    told = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": "bin/login",
        "args": ["--quick"],
        "env": [{"name": "REGION", "value": "north"}],
        "provideClusterInfo": True,
        "installHint": "get it from the shelf",
        "interactiveMode": "IfAvailable",
    }
    login = load(written(tmp_path, {}, {"exec": told})).login
    assert login is not None
    assert login.command == str(tmp_path / "bin" / "login")
    assert (login.args, login.env, login.cluster_info) == (("--quick",), {"REGION": "north"}, True)
    assert login.hint == "get it from the shelf"


def test_acting_as_somebody_else_and_odd_servers(tmp_path: Path) -> None:
    cluster = {"tls-server-name": "db.local", "proxy-url": "http://proxy:3128"}
    user = {"token": "t", "as": "jane", "as-groups": ["dev"], "as-user-extra": {"team": ["a", "b"]}}
    access = load(written(tmp_path, cluster, user))
    assert access.impersonation == Impersonation("jane", groups=("dev",), extra={"team": ("a", "b")})
    assert (access.server_name, access.proxy) == ("db.local", "http://proxy:3128")
    assert load(written(tmp_path, {"insecure-skip-tls-verify": True}, {})).insecure


@pytest.mark.parametrize(
    ("cluster", "user", "message"),
    [
        ({"server": "http://10.0.0.1"}, {}, "is not an https:// address"),
        (
            {"extensions": [{"name": SERVERS, "extension": {"servers": ["http://10.0.0.2"]}}]},
            {},
            "http://10.0.0.2' is not an https:// address",
        ),
        (
            {"extensions": [{"name": SERVERS, "extension": {"servers": "https://10.0.0.2"}}]},
            {},
            "servers must be a list",
        ),
        ({"proxy-url": "socks5://proxy"}, {}, "must be an http:// address"),
        ({}, {"username": "a", "password": "b"}, "username is not supported"),
        ({}, {"auth-provider": {"name": "gcp"}}, "auth-provider is not supported"),
        ({}, {"as-groups": ["dev"]}, "need a user to act as"),
        ({}, {"as": "jane", "as-groups": "dev"}, "as-groups must be a list"),
        ({}, {"exec": {"apiVersion": "client.authentication.k8s.io/v1alpha1"}}, "v1alpha1' is not supported"),
        ({}, {"exec": {"apiVersion": "client.authentication.k8s.io/v1"}}, "exec.command is missing"),
        (
            {},
            {
                "exec": {
                    "apiVersion": "client.authentication.k8s.io/v1",
                    "command": "x",
                    "interactiveMode": "Always",
                }
            },
            "there is no terminal to ask at",
        ),
        (
            {"insecure-skip-tls-verify": True, "certificate-authority-data": "cGVt"},
            {},
            "can't be given together",
        ),
        ({"certificate-authority": "missing.crt"}, {}, r"missing\.crt can't be read"),
        ({"certificate-authority-data": "%%%"}, {}, "is not base64"),
    ],
)
def test_what_cannot_be_honoured_is_said(
    tmp_path: Path, cluster: dict[str, Any], user: dict[str, Any], message: str
) -> None:
    file = written(tmp_path, cluster, user)
    with pytest.raises(KubeconfigError, match=message) as refused:
        load(file)
    assert str(refused.value).startswith(f"{file}: ")


def test_the_first_file_that_exists_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("KUBECONFIG", f"{tmp_path / 'missing'}:{tmp_path / 'second'}")
    (tmp_path / "second").touch()
    (tmp_path / "default").touch()
    assert find(None, tmp_path / "default") == tmp_path / "second"
    assert find(tmp_path / "named", tmp_path / "default") == tmp_path / "named"
    monkeypatch.delenv("KUBECONFIG")
    assert find(None, tmp_path / "default") == tmp_path / "default"
    with pytest.raises(KubeconfigError, match="--kubeconfig"):
        find(None, tmp_path / "nothing")


def test_a_pod_finds_its_server(tmp_path: Path) -> None:
    environ = {"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "443"}
    assert not in_cluster.is_available(environ, tmp_path)
    for name, content in (("token", "secret\n"), ("ca.crt", "pem"), ("namespace", "db")):
        (tmp_path / name).write_text(content)
    assert in_cluster.is_available(environ, tmp_path)
    access = in_cluster.load(environ, tmp_path)
    assert (access.url, access.token, access.namespace) == ("https://[fd00::1]:443", "secret", "db")
    assert (access.token_file, access.authority) == (tmp_path / "token", b"pem")
    with pytest.raises(AccessError, match="not running in a pod"):
        in_cluster.load({}, tmp_path)
