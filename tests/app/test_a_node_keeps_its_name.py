from __future__ import annotations

import socket
from pathlib import Path

import pytest

from pilothouse.app.kubeconfig import kubeconfig_beside
from pilothouse.app.node_names import check_node_name, default_node_name, kept_node_name
from pilothouse.app.options import StartError


def test_the_name_of_the_last_time_counts(tmp_path: Path) -> None:
    file = tmp_path / "node.kubeconfig"
    assert kept_node_name(file) == ""
    file.write_bytes(kubeconfig_beside("https://127.0.0.1:1", b"pem", "system:node:laptop", "a.crt", "a.key"))
    assert kept_node_name(file) == "laptop"
    file.write_text("nonsense")
    with pytest.raises(StartError, match=r"node\.kubeconfig is damaged"):
        kept_node_name(file)


def test_a_folder_that_is_none_is_told(tmp_path: Path) -> None:
    (tmp_path / "data").touch()
    with pytest.raises(StartError, match=r"data/node\.kubeconfig can't be read: Not a directory"):
        kept_node_name(tmp_path / "data" / "node.kubeconfig")


@pytest.mark.parametrize(
    ("host", "node"),
    [
        ("laptop", "laptop"),
        ("Ann's MacBook", "ann-s-macbook"),
        ("db-3.example.com", "db-3.example.com"),
        ("__", "node"),
    ],
)
def test_a_host_name_becomes_one_that_a_node_may_have(
    monkeypatch: pytest.MonkeyPatch, host: str, node: str
) -> None:
    monkeypatch.setattr(socket, "gethostname", lambda: host)
    assert check_node_name(default_node_name()) == node


@pytest.mark.parametrize("name", ["Laptop", "a_b", "-a", "a.", "x" * 254])
def test_what_can_be_no_name_is_told(name: str) -> None:
    with pytest.raises(StartError, match="is no name for a node"):
        check_node_name(name)
