"""What every test of Kubernetes' kinds does: hand a manifest in, look at what would be stored or what is wrong with it."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from pilothouse.api import kubernetes
from pilothouse.meta.fields import FieldError
from pilothouse.meta.kind import Kind, Object


class Kubernetes:
    """The kinds, and the steps that a server takes with an object of theirs."""

    def __init__(self) -> None:
        kinds = [kind for resource in kubernetes.resources() for kind in resource.kinds]
        self._kinds = {
            (kind.api_version, kind.name): kind for kind in (*kinds, *kubernetes.bodies().values())
        }

    def __iter__(self) -> Any:
        return iter(self._kinds.values())

    def kind(self, name: str, api_version: str = "") -> Kind:
        for (given, kind_name), kind in self._kinds.items():
            if kind_name == name and api_version in ("", given):
                return kind
        raise KeyError(name)

    def complete(self, manifest: Object) -> Object:
        """The object with every default."""
        obj = copy.deepcopy(manifest)
        obj.setdefault("metadata", {})
        kind = self._kinds[obj["apiVersion"], obj["kind"]]
        unknown = kind.shape.prune(obj)
        assert unknown == []
        kind.shape.default(obj)
        kind.default(obj)
        return obj

    def create(self, manifest: Object) -> Object:
        """The object as it would be stored."""
        obj = self.complete(manifest)
        kind = self._kinds[obj["apiVersion"], obj["kind"]]
        if kind.status:
            obj.pop("status", None)
        kind.prepare_create(obj)
        return obj

    def problems(self, manifest: Object) -> list[str]:
        """What is wrong with a new object, as people read it."""
        obj = self.create(manifest)
        return self._judge(obj, None)

    def update(self, new: Object, old: Object) -> tuple[Object, list[str]]:
        """The stored successor of an object, and what is wrong with it."""
        obj = self.complete(new)
        kind = self._kinds[obj["apiVersion"], obj["kind"]]
        if kind.status and "status" in old:
            obj["status"] = copy.deepcopy(old["status"])
        kind.prepare_update(obj, old)
        return obj, self._judge(obj, old)

    def change(self, stored: Object, path: str, value: Any) -> list[str]:
        """What is wrong with changing one field of a stored object; None removes it."""
        new = copy.deepcopy(stored)
        at: Any = new
        *way, last = [int(part) if part.isdigit() else part for part in path.split(".")]
        for part in way:
            at = at[part] if isinstance(part, int) else at.setdefault(part, {})
        if value is None:
            del at[last]
        else:
            at[last] = value
        return self.update(new, stored)[1]

    def row(self, obj: Object, now: float = 0.0, *, wide: bool = False) -> dict[str, Any]:
        """The cells of ``kubectl get`` by column."""
        kind = self._kinds[obj["apiVersion"], obj["kind"]]
        shown = [each for each in kind.columns if wide or not each.priority]
        return {each.name: each.cell(obj, now) for each in shown if each.cell is not None}

    def _judge(self, obj: Object, old: Object | None) -> list[str]:
        kind = self._kinds[obj["apiVersion"], obj["kind"]]
        found: list[FieldError] = list(kind.shape.validate(obj, old))
        return [str(each) for each in found or kind.validate(obj, old)]


@pytest.fixture(scope="session")
def kinds() -> Kubernetes:
    return Kubernetes()


@pytest.fixture
def pod() -> Object:
    """A small pod that is in order."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "db-0", "namespace": "harbour"},
        "spec": {"containers": [{"name": "db", "image": "db:1.0"}]},
    }


@pytest.fixture
def stateful_set() -> Object:
    """A small set that is in order."""
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": "db", "namespace": "harbour"},
        "spec": {
            "serviceName": "db",
            "selector": {"matchLabels": {"app": "db"}},
            "template": {
                "metadata": {"labels": {"app": "db"}},
                "spec": {
                    "containers": [
                        {
                            "name": "db",
                            "image": "db:1.0",
                            "volumeMounts": [{"name": "data", "mountPath": "/data"}],
                        }
                    ]
                },
            },
            "volumeClaimTemplates": [
                {
                    "metadata": {"name": "data"},
                    "spec": {
                        "accessModes": ["ReadWriteOnce"],
                        "resources": {"requests": {"storage": "1Gi"}},
                    },
                }
            ],
        },
    }
