"""An operator that sets its claims back to its own size, and a rule that grows them.

Through the operator's field the volume grows and stays so. Without it the action fails, names the operator,
and the rule leaves the claim alone until its back-off is over.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
from tests.kit.rule_fleet import SPACE, RuleFleet, claim, rule

from pilothouse.api.kind_names import (
    CustomResourceDefinition,
    KindName,
    PersistentVolumeClaim,
    Role,
    RoleBinding,
)
from pilothouse.api.objects import Object, Tree
from pilothouse.base.quantity import parse_quantity
from pilothouse.client.api import Api

DATABASE = KindName("example.com", "v1", "Database", "databases")
OPERATOR = "database-operator"
FIELD = "spec.storage.size"
MEBIBYTE = 1024 * 1024
_REQUEST = ("spec", "resources", "requests", "storage")


def definition() -> Tree:
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    schema = {"openAPIV3Schema": {"type": "object", "properties": {"spec": anything}}}
    names = {"kind": DATABASE.kind, "plural": DATABASE.plural, "singular": "database"}
    version = {"name": "v1", "served": True, "storage": True, "schema": schema}
    return {
        "metadata": {"name": f"{DATABASE.plural}.{DATABASE.group}"},
        "spec": {"group": DATABASE.group, "scope": "Namespaced", "names": names, "versions": [version]},
    }


def rights() -> tuple[Tree, Tree]:
    """What the condition of an action asks for that may not write to a Database."""
    meta = {"name": "pilothouse-rules", "namespace": SPACE}
    rule = {"apiGroups": [DATABASE.group], "resources": [DATABASE.plural], "verbs": ["get", "patch"]}
    subject = {"kind": "ServiceAccount", "name": "pilothouse-rules", "namespace": "kube-system"}
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "pilothouse-rules"}
    role: Tree = {"metadata": meta, "rules": [rule]}
    return role, {"metadata": meta, "roleRef": reference, "subjects": [subject]}


async def operate(api: Api) -> None:
    """Each claim of a Database requests what the Database says, whoever changed it.

    A server lets nobody lower a request to the capacity, so it is set to the least that is above.
    """
    while True:
        for database in (await api.list(DATABASE, SPACE)).objects:
            size = database.at("spec", "storage", "size")
            for one in (await api.list(PersistentVolumeClaim, SPACE)).objects:
                if (one.controller or {}).get("uid") == database.uid:
                    await _keep(api, one, size)
        await asyncio.sleep(0.2)


async def _keep(api: Api, owned: Object, size: str) -> None:
    capacity, wanted = _bytes(owned.at("status", "capacity", "storage", default="0")), _bytes(size)
    request = _bytes(owned.at(*_REQUEST))
    least = max(wanted, capacity + MEBIBYTE)
    if request in (least, max(wanted, capacity)):
        return
    text = size if wanted == least else f"{least // MEBIBYTE}Mi"
    fields = {"spec": {"resources": {"requests": {"storage": text}}}}
    await api.patch(PersistentVolumeClaim, owned.name, SPACE, fields, manager=OPERATOR)


def _bytes(size: str) -> int:
    return parse_quantity(size).to_int()


@pytest.fixture
def fleet() -> Iterator[RuleFleet]:
    """A Database of 8Gi, whose claim has the data for 12Gi at half of it."""
    with RuleFleet() as fleet:
        fleet.create_kind(CustomResourceDefinition, definition())
        for noun, tree in zip((Role, RoleBinding), rights(), strict=True):
            fleet.create_kind(noun, tree)
        fleet.wait(5)
        database = fleet.create_kind(
            DATABASE,
            {
                "apiVersion": DATABASE.api_version,
                "kind": DATABASE.kind,
                "metadata": {"name": "db", "namespace": SPACE},
                "spec": {"storage": {"size": "8Gi"}},
            },
        )
        made = claim("grow", "8Gi")
        owner = {"apiVersion": DATABASE.api_version, "kind": DATABASE.kind, "name": "db", "uid": database.uid}
        made["metadata"]["ownerReferences"] = [{**owner, "controller": True}]
        fleet.create(made)
        fleet.run_beside(operate)
        fleet.fill(grow=5)
        yield fleet


def database_size(fleet: RuleFleet) -> str:
    (found,) = fleet.list(DATABASE)
    return str(found.at("spec", "storage", "size"))


def test_through_the_field_of_the_operator_a_volume_grows_and_stays_so(fleet: RuleFleet) -> None:
    fleet.create(rule("grow", "usage", "Gt", 50, scalepercentage="50", owner=FIELD))
    fleet.wait(1800)
    assert fleet.sizes("grow") == ["12Gi"]
    assert fleet.claim("grow").at(*_REQUEST) == "12Gi"
    assert database_size(fleet) == "12Gi"
    (done,) = fleet.actions()
    assert done.status["phase"] == "Succeeded"
    assert done.at("spec", "target", "owner") == "Database/db"


def test_without_it_each_action_fails_once_and_names_the_operator(fleet: RuleFleet) -> None:
    fleet.create(rule("grow", "usage", "Gt", 50, scalepercentage="50"))
    fleet.wait(90)
    (failed,) = fleet.actions()
    assert failed.status["phase"] == "Failed"
    assert failed.status["attempts"] == 1
    complete = failed.condition("Complete") or {}
    assert complete["reason"] == "Undone"
    assert complete["message"] == (
        f"the request of claim grow was changed from 12Gi to 8193Mi by the field manager {OPERATOR}"
    )
    # Each further action waits twice as long as the one before.
    fleet.wait(3600)
    found = fleet.actions()
    assert {(one.status["phase"], one.status["attempts"]) for one in found} == {("Failed", 1)}
    assert 2 <= len(found) <= 7
    capacity = _bytes(fleet.claim("grow").at("status", "capacity", "storage"))
    assert capacity <= (8 << 30) + len(found) * MEBIBYTE
    assert database_size(fleet) == "8Gi"
