"""Rules that grow volumes, while metrics fail or lie, volumes lag, and users edit, pause and delete."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any, Final

from pilothouse.api.kind_names import (
    ApplicationAction,
    AutopilotRule,
    AutopilotRuleObject,
    ConfigMap,
    PersistentVolumeClaim,
    Question,
    StorageClass,
)
from pilothouse.api.objects import Tree
from pilothouse.api.openstorage.actions import RESIZE
from pilothouse.api.openstorage.pauses import PAUSED
from pilothouse.base.quantity import parse_quantity
from pilothouse.client.api import Api
from pilothouse.controllers.application_actions import all_executors
from pilothouse.controllers.garbage_collector import garbage
from pilothouse.controllers.service_accounts import service_accounts
from pilothouse.rules.rule_invariants import RULE_INVARIANTS
from pilothouse.sim.fleet import Scenario, UserAction
from pilothouse.sim.loop import LoopClock
from pilothouse.sim.metered_volumes import MODEL, USAGE, MeteredVolumes
from pilothouse.sim.scenarios.user_actions import SPACE, Do, create, delete, given_space
from pilothouse.sim.simulated_server import SimulatedServer

CLAIMS: Final = ("c0", "c1", "c2")
THRESHOLD: Final = 50
_GIB: Final = 1024**3
_CLASS: Final = "fast"


def rule_users(rng: Random) -> Sequence[UserAction]:
    """Claims are created and filled, rules are created and changed; at the end all is well again."""
    doing = begin_with(rule_tree("grow", **_terms(rng)))
    for name in CLAIMS:
        doing.append(UserAction(rng.uniform(0, 30), f"fill {name}", model(**_data(rng, name))))
    if rng.random() < 0.4:
        other = rule_tree("other", weight=rng.choice((-1, 5)), **_terms(rng))
        doing.append(UserAction(rng.uniform(0, 60), "create the rule other", create(AutopilotRule, other)))
    doing += [_rule_action(rng) for _ in range(rng.randint(1, 6))]
    doing.append(UserAction(0, "ask about the rule", create(Question, question_tree())))
    return [*doing, *end_well()]


def begin_with(*rules: Tree, claims: Sequence[Tree] = ()) -> list[UserAction]:
    """Create the namespace, the class, the model, these rules, and claims of 8Gi unless others are given."""
    made = claims or [claim_tree(name) for name in CLAIMS]
    return [
        given_space(),
        UserAction(1, "create the class", create(StorageClass, _storage_class())),
        UserAction(1, "create the model", create(ConfigMap, _model())),
        *(UserAction(1, f"create the rule {one['metadata']['name']}", create(AutopilotRule, one))
          for one in rules),
        *(UserAction(1, f"create {one['metadata']['name']}", create(PersistentVolumeClaim, one))
          for one in made),
    ]  # fmt: skip


def end_well() -> list[UserAction]:
    """Metrics are right, volumes grow, approvals are given, and rules go on as far as is needed."""
    return [
        UserAction(1, "all is well", model(metrics="ok", volumes="grow", approvals="approved")),
        UserAction(1, "resume", _pause("")),
        *(UserAction(1, f"edit the rule {name}", edit(name, rule_tree(name)["spec"]))
          for name in ("grow", "other")),
    ]  # fmt: skip


def _rule_action(rng: Random) -> UserAction:
    after = rng.uniform(1, 90)
    name = rng.choice(CLAIMS)
    match rng.choice(("edit", "metrics", "volumes", "data", "pause", "record", "claim", "rule")):
        case "edit":
            terms = _terms(rng)
            return UserAction(
                after, f"edit the rule to {terms}", edit("grow", rule_tree("grow", **terms)["spec"])
            )
        case "metrics":
            how = rng.choice(("away", "empty", "stale", "lies", "ok"))
            return UserAction(after, f"metrics are {how}", model(metrics=how))
        case "volumes":
            how = rng.choice(("refuses", "grow"))
            return UserAction(after, f"volumes: {how}", model(volumes=how))
        case "data":
            return UserAction(after, f"fill {name}", model(**_data(rng, name)))
        case "pause":
            return UserAction(after, "pause the rule", _pause("true"))
        case "record":
            return UserAction(after, "delete a record", _delete_a_record)
        case "rule":
            return UserAction(after, "delete the rule other", delete(AutopilotRule, "other"))
        case _:
            return UserAction(after, f"delete {name}", delete(PersistentVolumeClaim, name, SPACE))


def _data(rng: Random, name: str) -> dict[str, str]:
    return {f"data-{name}": str(rng.choice((2, 5, 8, 14)))}


def _terms(rng: Random) -> dict[str, Any]:
    terms: dict[str, Any] = {
        "enforcement": rng.choice(("", "", "approvalRequired", "recommend")),
        "maxsize": rng.choice(("64Gi", "20Gi", "12Gi")),
        "scalepercentage": rng.choice(("50", "100")),
    }
    if rng.random() < 0.3:
        terms["budget"] = {"concurrent": 1, "actionsPerHour": rng.choice((3, 100))}
    return terms


def rule_tree(
    name: str, *, maxsize: str = "64Gi", scalepercentage: str = "50", key: str = USAGE, **spec: Any
) -> Tree:
    """A rule on volumes that are more than half full."""
    params = {"scalepercentage": scalepercentage, **({"maxsize": maxsize} if maxsize else {})}
    return {
        "apiVersion": AutopilotRule.api_version,
        "kind": AutopilotRule.kind,
        "metadata": {"name": name},
        "spec": {
            "conditions": {
                "expressions": [{"key": key, "operator": "Gt", "values": [str(THRESHOLD)]}],
                "for": 10,
            },
            "pollInterval": 5,
            "actionsCoolDownPeriod": 30,
            "actions": [{"name": RESIZE, "params": params}],
            "enforcement": "",
            "weight": 0,
            "budget": None,
            **spec,
        },
    }


def claim_tree(name: str, size: str = "8Gi", labels: dict[str, str] | None = None) -> Tree:
    return {
        "metadata": {"name": name, "namespace": SPACE, "labels": labels or {}},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": _CLASS,
            "resources": {"requests": {"storage": size}},
        },
    }


def question_tree() -> Tree:
    return {
        "apiVersion": Question.api_version,
        "kind": Question.kind,
        "metadata": {"name": "asked", "namespace": SPACE},
        "spec": {"about": {"kind": AutopilotRule.kind, "name": "grow"}},
    }


def _storage_class() -> Tree:
    return {"metadata": {"name": _CLASS}, "provisioner": "example.com/model", "allowVolumeExpansion": True}


def _model() -> Tree:
    return {"metadata": {"name": MODEL, "namespace": SPACE}, "data": {}}


def model(**data: str) -> Do:
    """Change what happens outside."""
    return lambda api: api.patch(ConfigMap, MODEL, SPACE, {"data": data})


def edit(name: str, spec: Tree) -> Do:
    return lambda api: api.patch(AutopilotRule, name, "", {"spec": spec})


def _pause(value: str) -> Do:
    return lambda api: api.patch(AutopilotRule, "grow", "", {"metadata": {"annotations": {PAUSED: value}}})


async def _delete_a_record(api: Api) -> None:
    records = (await api.list(AutopilotRuleObject, SPACE)).objects
    if records:
        await api.delete(AutopilotRuleObject, records[0].name, SPACE)


async def rules_settled(api: Api) -> str:
    """No volume is too full, every object is Normal, and no action or question is left."""
    found = await api.find(ConfigMap, MODEL, SPACE)
    data = found.tree.get("data", {}) if found is not None else {}
    rule = await api.find(AutopilotRule, "grow")
    for claim in (await api.list(PersistentVolumeClaim, SPACE)).objects:
        capacity = parse_quantity(claim.at("status", "capacity", "storage", default="0")).to_int()
        percent = 100 * float(data.get(f"data-{claim.name}", "0")) * _GIB / max(1, capacity)
        if rule is not None and percent > THRESHOLD:
            return f"claim {claim.name} is {percent:.0f}% full"
    for record in (await api.list(AutopilotRuleObject, SPACE)).objects:
        if record.at("status", "state") != "Normal":
            return f"{record.name} is {record.status}"
    for action in (await api.list(ApplicationAction, SPACE)).objects:
        if action.at("status", "completionTime") is None:
            return f"action {action.name} has not ended: {action.status}"
    for question in (await api.list(Question, SPACE)).objects:
        return f"question {question.name} is still there: {question.status}"
    return ""


def _volumes(server: SimulatedServer, clock: LoopClock, rng: Random) -> MeteredVolumes:
    return MeteredVolumes(server.api("volumes"), clock, rng, namespace=SPACE)


RULES = Scenario(
    "rules",
    (*all_executors(), garbage, service_accounts),
    rule_users,
    rules_settled,
    RULE_INVARIANTS,
    nodes=0,
    outside=_volumes,
)
