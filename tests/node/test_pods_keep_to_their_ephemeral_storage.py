"""What counts as a pod's own on the disk, and when it is too much."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from pilothouse.api.kind_names import Pod
from pilothouse.api.objects import Object
from pilothouse.node.files.directory_usage import DirectoryUsage
from pilothouse.node.pods.ephemeral_storage import (
    StorageUsage,
    is_limited,
    limit_violation,
    measure_storage,
    request,
)

MIB = 2**20


def pod(*containers: dict[str, Any], init: tuple[dict[str, Any], ...] = ()) -> Object:
    return Object(
        Pod, {"metadata": {"name": "p"}, "spec": {"containers": containers, "initContainers": init}}
    )


def container(name: str, limit: str = "", asked: str = "") -> dict[str, Any]:
    limits = {"ephemeral-storage": limit} if limit else {}
    requests = {"ephemeral-storage": asked} if asked else {}
    return {"name": name, "resources": {"limits": limits, "requests": requests}}


@pytest.mark.parametrize(
    ("kept", "told"),
    [
        (StorageUsage({"web": 1 * MIB, "log": 0}, DirectoryUsage(3 * MIB, 9)), ""),
        (
            StorageUsage({"web": 1 * MIB, "log": 0}, DirectoryUsage(4 * MIB, 9)),
            "Pod ephemeral local storage usage exceeds the total limit of containers 3Mi.",
        ),
        (
            StorageUsage({"web": 0, "log": 2 * MIB}, DirectoryUsage(2 * MIB, 9)),
            'Container log exceeded its local ephemeral storage limit "1Mi".',
        ),
    ],
)
def test_who_keeps_too_much_is_told_as_kubelet_tells_it(kept: StorageUsage, told: str) -> None:
    assert limit_violation(pod(container("web", "2Mi"), container("log", "1Mi")), kept) == told


def test_who_sets_no_limit_has_none() -> None:
    free = pod(container("web"))
    assert not is_limited(free)
    assert limit_violation(free, StorageUsage({"web": 2**40}, DirectoryUsage(2**40, 9))) == ""


@pytest.mark.parametrize(
    ("one", "amount"),
    [
        (pod(container("a"), container("b")), 0),
        (pod(container("a", "2Mi", "1Mi"), container("b", "4Mi")), 5 * MIB),
        (pod(container("a", asked="1Mi"), init=(container("i", asked="3Mi"), container("j"))), 3 * MIB),
    ],
)
def test_what_a_pod_asks_for(one: Object, amount: int) -> None:
    assert request(one) == amount


def test_volumes_and_logs_count(tmp_path: Path) -> None:
    assert measure_storage(tmp_path) == StorageUsage({}, DirectoryUsage(0, 0))
    for place, size in (
        ("volumes/tmp/deep/file", 2),
        ("containers/web/0/log", 1),
        ("containers/log/3/log", 3),
    ):
        (tmp_path / place).parent.mkdir(parents=True)
        (tmp_path / place).write_bytes(os.urandom(size * MIB))
    kept = measure_storage(tmp_path)
    # Folders take some room too, which depends on the filesystem.
    assert {name: size // MIB for name, size in kept.containers.items()} == {"web": 1, "log": 3}
    assert kept.total.size // MIB == 6
    assert kept.total.files == 2 + 3 + 2, "folders count too"
