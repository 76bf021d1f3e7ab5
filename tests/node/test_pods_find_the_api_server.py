"""Every client library looks for the API server in the same variables."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.node.network.objects import pod

from pilothouse.client import in_cluster
from pilothouse.node.containers.environment import environment


def env_of(server: str, *others: str, **container: object) -> dict[str, str]:
    return environment(
        pod("p"),
        {"name": "main", **container},
        {},
        {},
        address="127.70.4.1",
        host="",
        allocatable={},
        server=server,
        other_servers=others,
    )


@pytest.mark.parametrize(
    ("server", "url"),
    [
        ("https://10.0.0.1:6443", "https://10.0.0.1:6443"),
        ("https://[fd00::1]:6443", "https://[fd00::1]:6443"),
        ("https://plane.example.org", "https://plane.example.org:443"),
    ],
)
def test_a_client_in_a_pod_finds_the_server(server: str, url: str, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("secret")
    (tmp_path / "ca.crt").write_text("certificate")
    assert in_cluster.load(env_of(server), tmp_path).url == url


def test_a_client_of_ours_finds_the_others_too(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("secret")
    (tmp_path / "ca.crt").write_text("certificate")
    urls = ("https://10.0.0.1:6443", "https://10.0.0.2:6443", "https://[fd00::1]:6443")
    assert in_cluster.load(env_of(*urls), tmp_path).urls == urls


def test_what_a_pod_says_itself_counts() -> None:
    own = [{"name": "KUBERNETES_SERVICE_HOST", "value": "elsewhere"}]
    assert env_of("https://10.0.0.1:6443", env=own)["KUBERNETES_SERVICE_HOST"] == "elsewhere"


def test_nothing_is_said_of_a_server_that_is_not_known() -> None:
    assert not any(name.startswith("KUBERNETES") for name in env_of(""))
