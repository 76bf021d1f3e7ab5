"""What counts as a pod's own on the disk, and when it is too much."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from pilothouse.api.nouns import Pod
from pilothouse.api.objects import Object
from pilothouse.node.footprints import Footprint
from pilothouse.node.storing import Kept, is_limited, measured, overrun, request

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
        (Kept({"web": 1 * MIB, "log": 0}, Footprint(3 * MIB, 9)), ""),
        (
            Kept({"web": 1 * MIB, "log": 0}, Footprint(4 * MIB, 9)),
            "Pod ephemeral local storage usage exceeds the total limit of containers 3Mi.",
        ),
        (
            Kept({"web": 0, "log": 2 * MIB}, Footprint(2 * MIB, 9)),
            'Container log exceeded its local ephemeral storage limit "1Mi".',
        ),
    ],
)
def test_who_keeps_too_much_is_told_as_kubelet_tells_it(kept: Kept, told: str) -> None:
    assert overrun(pod(container("web", "2Mi"), container("log", "1Mi")), kept) == told


def test_who_sets_no_limit_has_none() -> None:
    free = pod(container("web"))
    assert not is_limited(free)
    assert overrun(free, Kept({"web": 2**40}, Footprint(2**40, 9))) == ""


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
    assert measured(tmp_path) == Kept({}, Footprint(0, 0))
    for place, size in (
        ("volumes/tmp/deep/file", 2),
        ("containers/web/0/log", 1),
        ("containers/log/3/log", 3),
    ):
        (tmp_path / place).parent.mkdir(parents=True)
        (tmp_path / place).write_bytes(os.urandom(size * MIB))
    kept = measured(tmp_path)
    # Folders take some room too, which depends on the filesystem.
    assert {name: size // MIB for name, size in kept.containers.items()} == {"web": 1, "log": 3}
    assert kept.total.size // MIB == 6
    assert kept.total.files == 2 + 3 + 2, "folders count too"
