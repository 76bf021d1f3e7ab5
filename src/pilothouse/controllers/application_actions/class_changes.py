"""Giving a claim another VolumeAttributesClass, and what its driver answers.

    change = ClassChange(claim, "autopilot-3f2a…", {"iops": "6000"})
    change.problem(world)                   # why that class can't be given to it; empty if it can
    yield from change.writes(world, …)      # the class, if it is computed and missing, and the claim
    progress_of(change, since, world.now, longest=3600.0)       # UnderWay, NotChanged

A class of its own is computed from the one that the volume has: its other parameters are kept. A refusal
counts only for the class that was asked for. The write to the claim is refused if the class is gone by then.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from pilothouse.api.attributes_classes import (
    computed_class,
    computed_name,
    current_class,
    driver_of,
    parameters_of,
    requested_class,
)
from pilothouse.api.kind_names import PersistentVolume, VolumeAttributesClass
from pilothouse.api.objects import Object, Tree
from pilothouse.controllers.application_actions.action_status import changed_by
from pilothouse.runtime.intents import Create, Intent, ObjectTarget, PatchObject
from pilothouse.runtime.snapshot import Snapshot

CLASS_READS: Final = (PersistentVolume, VolumeAttributesClass)
ANSWER_SECONDS: Final = 600.0
"""How long a driver may take to answer at all."""
ERROR_SECONDS: Final = 600.0
"""How long it may report an error."""
_CLASS_NAME: Final = "volumeAttributesClassName"


class ClassChange(msgspec.Struct, frozen=True):
    """A claim, the class that it is to have, and what differs in it if it is computed."""

    claim: Object
    to: str
    changes: Mapping[str, str] = {}
    """Parameters that differ from the present class; empty for a class that has to exist."""
    annotations: Mapping[str, str] = {}
    """Of the claim, which are written with it."""

    @property
    def is_reached(self) -> bool:
        return current_class(self.claim) == self.to and requested_class(self.claim) == self.to

    @property
    def is_requested(self) -> bool:
        return requested_class(self.claim) == self.to

    def other_change(self) -> str:
        """Which other class the claim waits for; empty if it waits for none."""
        asked, name = requested_class(self.claim), current_class(self.claim)
        if asked in (name, self.to):
            return ""
        return f"claim {self.claim.name} waits for class {asked or 'none'} and has {name or 'none'}"

    def overruled(self, found: str | None) -> str:
        """Which client has changed the class that was found, before this one was asked for; empty if none
        has."""
        asked = requested_class(self.claim)
        if found is None or asked in (found, self.to):
            return ""
        change = f"{found or 'none'} to {asked or 'none'}{changed_by(self.claim, 'spec', _CLASS_NAME)}"
        return f"the class of claim {self.claim.name} was changed from {change}"

    def undone(self) -> str:
        """Which client has asked for another class since this one was asked for."""
        by = changed_by(self.claim, "spec", _CLASS_NAME)
        asked = requested_class(self.claim) or "none"
        return f"the class of claim {self.claim.name} was changed from {self.to} to {asked}{by}"

    def problem(self, world: Snapshot) -> str:
        """Why the class can't be given to the claim; empty if it can."""
        volume = world.find(PersistentVolume, "", str(self.claim.spec.get("volumeName") or ""))
        if volume is None:
            return f"the volume of claim {self.claim.name} is not known"
        driver, found = driver_of(volume), world.find(VolumeAttributesClass, "", self.to)
        if found is not None:
            if found.deleting:
                return f"class {self.to} is being deleted"
            if found.get("driverName") != driver:
                return f"class {self.to} is for volumes of {found.get('driverName')}, not of {driver}"
            return ""
        if not self.changes:
            return f"class {self.to} does not exist"
        if computed_name(driver, self._parameters(world)) != self.to:
            name = current_class(self.claim) or "none"
            return f"class {self.to} was computed from another class than claim {self.claim.name} has: {name}"
        return ""

    def writes(self, world: Snapshot, *, because: str) -> tuple[Intent, ...]:
        """What asks for it; ``problem`` has to be empty."""
        found = world.find(VolumeAttributesClass, "", self.to)
        metadata: Tree = {"metadata": {"annotations": dict(self.annotations)}} if self.annotations else {}
        fields = {**metadata, "spec": {_CLASS_NAME: self.to}}
        if found is not None:
            provided = ObjectTarget(VolumeAttributesClass, "", found.name, found.uid)
            return (PatchObject(self.claim, fields, exact=True, provided=provided, because=because),)
        volume = world.find(PersistentVolume, "", str(self.claim.spec["volumeName"]))
        assert volume is not None, "problem is not empty"
        made = computed_class(driver_of(volume), self._parameters(world))
        return (
            Create(made, because=f"{because}: no class has these parameters"),
            PatchObject(self.claim, fields, exact=True, because=because),
        )

    def _parameters(self, world: Snapshot) -> dict[str, str]:
        name = current_class(self.claim)
        present = world.find(VolumeAttributesClass, "", name) if name else None
        return {**parameters_of(present), **self.changes}


class UnderWay(msgspec.Struct, frozen=True):
    """The driver has to answer, or works on it."""

    left: float
    """Seconds until that is too long."""
    message: str


class NotChanged(msgspec.Struct, frozen=True):
    """The driver has refused, or has not answered."""

    reason: str
    message: str


def progress_of(change: ClassChange, since: float, now: float, *, longest: float) -> UnderWay | NotChanged:
    """How far a change is that was asked for at ``since`` and is not reached; it may take ``longest``
    seconds."""
    claim, to = change.claim, change.to
    modify: Mapping[str, Any] = claim.status.get("modifyVolumeStatus") or {}
    answered = modify.get("targetVolumeAttributesClassName") == to
    condition = claim.condition("ModifyVolumeError") or {}
    error = str(condition.get("message") or "") if condition.get("status") == "True" and answered else ""
    if answered and modify.get("status") == "Infeasible":
        why = error or "its driver gives no reason"
        return NotChanged("Infeasible", f"claim {claim.name} can't have class {to}: {why}")
    waiting = f"claim {claim.name} waits for class {to}"
    if error:
        limit, message, reason = ERROR_SECONDS, f"{waiting}: {error}", "NotModified"
    elif answered:
        limit, message, reason = longest, f"{waiting}: its driver works on it", "NotModified"
    else:
        limit, message, reason = ANSWER_SECONDS, f"{waiting}: its driver has not answered", "NoAnswer"
    if (left := since + limit - now) > 0:
        return UnderWay(left, message)
    if reason == "NoAnswer":
        minutes = f"{ANSWER_SECONDS / 60:g} minutes"
        message = f"no driver has answered within {minutes} that claim {claim.name} is to have class {to}"
        message += "; the request stays"
    return NotChanged(reason, message)
