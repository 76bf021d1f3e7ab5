"""A claim whose owner is an operator of somebody else, which resets the claim to the size in its own object."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.controllers.application_actions.test_a_volume_gets_another_class_or_tier import (
    BINDING,
    CLUSTERS,
    ROLE,
    definition,
)
from tests.kit.rule_fleet import SPACE, RuleFleet, claim, rule

from pilothouse.api.kind_names import CustomResourceDefinition, PersistentVolumeClaim
from pilothouse.base.quantity import parse_quantity
from pilothouse.client.api import Api

Json = dict[str, Any]


async def operator(api: Api) -> None:
    """Resets a claim that is larger than its Database says, and follows the Database when that is edited."""
    while True:
        await asyncio.sleep(0.2)
        database = await api.find(CLUSTERS, "db", SPACE)
        found = await api.find(PersistentVolumeClaim, "data", SPACE)
        if database is None or found is None:
            continue
        size = database.at("spec", "storage", "size")
        requested = found.at("spec", "resources", "requests", "storage")
        if parse_quantity(requested) > parse_quantity(size) or database.generation > 1:
            fields = {"spec": {"resources": {"requests": {"storage": size}}}}
            if requested != size:
                await api.patch(PersistentVolumeClaim, "data", SPACE, fields, manager="database-operator")


@contextmanager
def started(size: str) -> Iterator[RuleFleet]:
    """A Database of this size, whose claim has 8Gi. Executors may write to it."""
    with RuleFleet(beside=operator) as running:
        running.create_any(CustomResourceDefinition, definition())
        running.wait(5)
        owner = running.create_any(
            CLUSTERS,
            {
                "apiVersion": "example.com/v1",
                "kind": "Database",
                "metadata": {"name": "db", "namespace": SPACE},
                "spec": {"storage": {"size": size}},
            },
        )
        meta = {"name": "pilothouse-rules", "namespace": SPACE}
        allowed = {"apiGroups": ["example.com"], "resources": ["databases"], "verbs": ["get", "patch"]}
        version = "rbac.authorization.k8s.io/v1"
        running.create_any(
            ROLE, {"apiVersion": version, "kind": "Role", "metadata": meta, "rules": [allowed]}
        )
        subject = {"kind": "ServiceAccount", "name": "pilothouse-rules", "namespace": "kube-system"}
        reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "pilothouse-rules"}
        bound = {"metadata": meta, "roleRef": reference, "subjects": [subject]}
        running.create_any(BINDING, {"apiVersion": version, "kind": "RoleBinding", **bound})
        reference = {"apiVersion": "example.com/v1", "kind": "Database", "name": "db", "uid": owner.uid}
        made = claim("data", "8Gi", case="grow")
        made["metadata"]["ownerReferences"] = [{**reference, "controller": True}]
        running.create(made)
        yield running


def test_by_the_field_of_its_owner_it_grows_and_stays() -> None:
    with started("8Gi") as fleet:
        fleet.create(rule("grow", "usage", "Gt", 50, owner="spec.storage.size"))
        fleet.fill(data=5)
        fleet.wait(900)
        assert fleet.sizes("data") == ["12Gi"]
        (database,) = fleet.list(CLUSTERS)
        assert database.at("spec", "storage", "size") == "12Gi"
        assert database.managers("spec", "storage", "size") == ["pilothouse-volume-resize"]
        assert requested_by(fleet) == ["database-operator"]
        (action,) = fleet.actions()
        assert action.status["phase"] == "Succeeded"


def test_without_it_the_action_fails_once_with_its_name_and_is_not_repeated() -> None:
    """Kubernetes lets a request be lowered to what is more than the capacity: the operator's size is 9Gi."""
    with started("9Gi") as fleet:
        fleet.create(rule("grow", "usage", "Gt", 50))
        fleet.fill(data=4.2)
        fleet.wait(3600)
        (action,) = fleet.actions()
        condition = action.condition("Complete") or {}
        assert (action.status["phase"], condition["reason"]) == ("Failed", "Undone")
        assert condition["message"].endswith("from 12Gi to 9Gi by the field manager database-operator")
        assert fleet.claim("data").at("status", "capacity", "storage") == "9Gi"
        assert requested_by(fleet) == ["database-operator"]


def requested_by(fleet: RuleFleet) -> list[str]:
    return fleet.claim("data").managers("spec", "resources", "requests", "storage")
