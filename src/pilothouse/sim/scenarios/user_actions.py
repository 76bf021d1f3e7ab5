"""User actions and objects that scenarios share."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

from pilothouse.api.kind_names import KindName, Namespace
from pilothouse.api.objects import Tree
from pilothouse.client.api import Api, Propagation
from pilothouse.sim.fleet import UserAction

SPACE: Final = "db"
"""The namespace of scenarios that need only one."""

Do = Callable[[Api], Awaitable[object]]


def given_space() -> UserAction:
    """Create the namespace, once managers and nodes are up."""
    return UserAction(15, f"create the namespace {SPACE}", create(Namespace, namespace(SPACE)))


def create(noun: KindName, tree: Tree) -> Do:
    return lambda api: api.create(noun, tree)


def delete(noun: KindName, name: str, namespace: str = "", how: Propagation = "") -> Do:
    return lambda api: api.delete(noun, name, namespace, propagation=how)


def change_spec(noun: KindName, name: str, fields: Tree) -> Do:
    return lambda api: api.patch(noun, name, SPACE, {"spec": fields})


def namespace(name: str) -> Tree:
    return {"metadata": {"name": name}}


def pod(name: str, *, cpu: int = 0) -> Tree:
    """A pod. With requests it is scheduled; otherwise it names its node."""
    container: Tree = {"name": "c", "image": "app:1"}
    if cpu:
        container["resources"] = {"requests": {"cpu": str(cpu)}}
    placed = {} if cpu else {"nodeName": "n1"}
    return {
        "metadata": {"name": name, "namespace": SPACE, "labels": {"app": "web"}},
        "spec": {**placed, "containers": [container]},
    }
