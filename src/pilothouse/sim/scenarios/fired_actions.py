"""ApplicationActions that users of a scenario create, as rules would."""

from __future__ import annotations

from collections.abc import Callable

from pilothouse.api.attributes_classes import computed_name, current_class, parameters_of
from pilothouse.api.kind_names import (
    ApplicationAction,
    KindName,
    PersistentVolumeClaim,
    VolumeAttributesClass,
)
from pilothouse.api.local_volumes import LOOP
from pilothouse.api.objects import Object, Tree
from pilothouse.api.openstorage.actions import FINISHED, MOVE
from pilothouse.client.api import Api
from pilothouse.meta.errors import StatusError
from pilothouse.sim.scenarios.user_actions import SPACE, Do

Target = Tree | Callable[[Object], Tree]
"""What an action aims at; or how that follows from the object."""


def fire(name: str, noun: KindName, about: str, action: str, target: Target, /, **parameters: str) -> Do:
    """Create an action on an object, if that exists."""

    async def do(api: Api) -> None:
        found = await api.find(noun, about, SPACE if noun.namespaced else "")
        if found is not None:
            aims = target(found) if callable(target) else target
            await _create(api, name, found, action, aims, parameters)

    return do


def fire_on_claim(name: str, about: str, action: str, *, to: str = "", **parameters: str) -> Do:
    """Create a move (``tier``) or a change of the class of a claim, to another or to one with other ``iops``,
    whose target is computed from the class that it has."""

    async def do(api: Api) -> None:
        claim = await api.find(PersistentVolumeClaim, about, SPACE)
        if claim is None or claim.status.get("phase") != "Bound":
            return
        present = current_class(claim)
        attributes = await api.find(VolumeAttributesClass, present) if present else None
        changes = {field: value for field, value in parameters.items() if field in ("tier", "iops")}
        changed = computed_name(LOOP, {**parameters_of(attributes), **changes})
        if action == MOVE:
            target = {"from": "default", "to": parameters["tier"], "class": changed}
        else:
            target = {"from": present, "to": to or changed, **changes}
        await _create(api, name, claim, action, target, parameters)

    return do


async def actions_ended(api: Api) -> str:
    """Which action has not ended; empty if all have."""
    for action in (await api.list(ApplicationAction)).objects:
        if action.at("status", "completionTime") is None:
            return f"action {action.name} has not ended: {action.status}"
    return ""


async def _create(
    api: Api, name: str, about: Object, action: str, target: Tree, parameters: dict[str, str]
) -> None:
    for other in (await api.list(ApplicationAction, SPACE)).objects:
        if other.at("spec", "object", "uid") == about.uid and other.status.get("phase") not in FINISHED:
            # No rule fires two at a time on one object.
            return
    reference = {
        "apiVersion": about.api_version,
        "kind": about.kind,
        "name": about.name,
        "uid": about.uid,
    }
    tree = {
        "apiVersion": ApplicationAction.api_version,
        "kind": ApplicationAction.kind,
        "metadata": {"name": name, "namespace": SPACE},
        "spec": {
            "rule": "tune",
            "object": reference,
            "action": action,
            "target": target,
            **({"parameters": parameters} if parameters else {}),
        },
    }
    try:
        await api.create(ApplicationAction, tree)
    except StatusError as refusal:
        if refusal.reason != "AlreadyExists":
            raise
