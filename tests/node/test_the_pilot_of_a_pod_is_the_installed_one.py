"""An init container that brings the pilot along runs the one that is installed on the node, whatever image it names."""

from __future__ import annotations

import pytest

from pilothouse.api.navigator.labels import HAS_PILOT
from pilothouse.api.objects import Object, Tree
from pilothouse.node.containers.container_config import image_name
from pilothouse.node.lifecycle.container_roles import containers_of

INSTALL: Tree = {
    "name": "install-pilot",
    "image": "quay.io/jetstack/navigator-pilot-elasticsearch:canary",
    "command": ["pilothouse", "pilot", "install", "/shared"],
}
DATABASE: Tree = {
    "name": "db",
    "image": "elasticsearch:6.8",
    "command": ["/shared/pilothouse", "pilot", "elasticsearch"],
}


def images(*, labelled: bool, init: Tree = INSTALL) -> list[str]:
    labels = {HAS_PILOT: ""} if labelled else {}
    pod = Object.of(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "es-0", "namespace": "default", "labels": labels},
            "spec": {"initContainers": [init], "containers": [DATABASE]},
        }
    )
    return [image_name(pod, part) for part in containers_of(pod.spec)]


def test_any_pilot_image_stands_for_the_installed_pilot() -> None:
    assert images(labelled=True) == ["host/pilothouse", "elasticsearch:6.8"]


@pytest.mark.parametrize(("labelled", "command"), [(False, INSTALL["command"]), (True, ["sh", "-c", "true"])])
def test_no_other_image_does(labelled: bool, command: list[str]) -> None:
    assert images(labelled=labelled, init={**INSTALL, "command": command})[0] == INSTALL["image"]
