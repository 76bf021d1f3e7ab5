"""What users of many scenarios do, and to what."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

from pilothouse.api.kind_names import KindName, Namespace
from pilothouse.api.objects import Tree
from pilothouse.client.api import Api
from pilothouse.sim.fleet import UserAction

SPACE: Final = "db"
"""The namespace in which it all happens, where one is enough."""

Do = Callable[[Api], Awaitable[object]]


def given_space() -> UserAction:
    """There is the namespace, once managers and nodes are up."""
    return UserAction(15, f"create the namespace {SPACE}", create(Namespace, namespace(SPACE)))


def create(noun: KindName, tree: Tree) -> Do:
    return lambda api: api.create(noun, tree)


def delete(noun: KindName, name: str, namespace: str = "") -> Do:
    return lambda api: api.delete(noun, name, namespace)


def namespace(name: str) -> Tree:
    return {"metadata": {"name": name}}


def pod(name: str, *, cpu: int = 0) -> Tree:
    """One that says what it needs is placed by the scheduler, any other by whoever makes it."""
    container: Tree = {"name": "c", "image": "app:1"}
    if cpu:
        container["resources"] = {"requests": {"cpu": str(cpu)}}
    placed = {} if cpu else {"nodeName": "n1"}
    return {
        "metadata": {"name": name, "namespace": SPACE, "labels": {"app": "web"}},
        "spec": {**placed, "containers": [container]},
    }
