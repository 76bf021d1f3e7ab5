"""On a real Kubernetes nothing is granted by itself: the roles in the example name every kind that rules need."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from pilothouse.controllers.application_actions import all_executors
from pilothouse.controllers.application_policies import application_policies
from pilothouse.rules.rule_controllers import rule_controllers
from pilothouse.rules.rule_providers import NoProviders

KUBERNETES = Path(__file__).parents[2] / "examples" / "kubernetes"
CONTROLLERS = (application_policies, *all_executors(), *rule_controllers(NoProviders()))


def role(file: str, name: str) -> list[dict[str, Any]]:
    documents = yaml.safe_load_all((KUBERNETES / file).read_text())
    (found,) = (one for one in documents if (one["kind"], one["metadata"]["name"]) == ("ClusterRole", name))
    rules: list[dict[str, Any]] = found["rules"]
    return rules


def allows(rules: list[dict[str, Any]], group: str, resource: str, verbs: set[str]) -> bool:
    return any(
        group in rule["apiGroups"]
        and {resource, "*"} & set(rule["resources"])
        and verbs <= set(rule["verbs"])
        for rule in rules
    )


@pytest.mark.parametrize("one", CONTROLLERS, ids=[one.name for one in CONTROLLERS])
def test_a_controller_may_read_its_kinds(one: Any) -> None:
    rules = role("rules.yaml", "pilothouse:rule-controllers")
    lacking = [
        kind for kind in one.nouns if not allows(rules, kind.group, kind.plural, {"get", "list", "watch"})
    ]
    assert lacking == []


def test_a_node_may_report_its_storage_pools() -> None:
    rules = role("node-storage.yaml", "pilothouse:node-storage")
    wanted = {"get", "list", "watch", "create", "patch", "delete"}
    assert allows(rules, "pilothouse.io", "storagepools", wanted)
    assert allows(rules, "pilothouse.io", "storagepools/status", {"patch"})
