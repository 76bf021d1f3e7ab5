"""The payload that the Plan has for a turn of this machine.

    payload = await planned_payload(api, node, key)  # NotPlanned: the Plan does not name this machine

A signal alone makes no machine do anything: anyone who can write annotations could send one. The Plan has to
be there, has to run, and has to name the machine; URL, version and hash are the Plan's.
"""

from __future__ import annotations

from typing import Final

import msgspec

from pilothouse.api.k0s.payloads import Payload
from pilothouse.api.k0s.v1beta2 import (
    RUNNING_PLAN,
    AirgapUpdate,
    K0sUpdate,
    Plan,
    PlanCommandStatus,
    TargetStatus,
)
from pilothouse.api.kind_names import ControlNode
from pilothouse.api.kind_names import Plan as PlanName
from pilothouse.api.objects import Object
from pilothouse.client.api import Api
from pilothouse.node.updating.update_journal import TurnIdentity

_RUNNING: Final = ("SchedulableWait", "Schedulable")
_ON_TURN: Final = ("SignalPending", "SignalSent")


class NotPlanned(Exception):
    """The Plan does not say that it is this machine's turn; the message says why."""


async def planned_payload(api: Api, machine: Object, key: TurnIdentity) -> Payload:
    """The payload that the Plan names for the turn that is signalled on an object. Raises NotPlanned."""
    found = await api.find(PlanName, RUNNING_PLAN)
    if found is None or found.deletion_timestamp:
        raise NotPlanned(f"there is no Plan {RUNNING_PLAN}")
    if found.uid != key.plan_uid:
        raise NotPlanned(f"the Plan {RUNNING_PLAN} is another one, with the uid {found.uid}")
    try:
        plan = found.as_type(Plan)
    except msgspec.ValidationError as problem:
        raise NotPlanned(f"the Plan {RUNNING_PLAN} can't be read: {problem}") from None
    return _payload(plan, machine, key)


def _payload(plan: Plan, machine: Object, key: TurnIdentity) -> Payload:
    status = plan.status
    if status is None or status.spec is None or status.run_generation != key.generation:
        raise NotPlanned(f"the Plan {RUNNING_PLAN} does not run generation {key.generation}")
    if status.state not in _RUNNING:
        raise NotPlanned(f"the Plan {RUNNING_PLAN} does not run: its state is {status.state or 'empty'}")
    if key.rollback and not status.rolling_back:
        raise NotPlanned(f"the Plan {RUNNING_PLAN} is not rolling back")
    commands = status.spec.commands
    progress = next((each for each in status.commands if each.id == key.command), None)
    if progress is None or not 0 <= key.command < len(commands):
        raise NotPlanned(f"the Plan {RUNNING_PLAN} has no command {key.command}")
    command = commands[key.command]
    update = command.k0supdate if key.kind == "k0supdate" else command.airgapupdate
    if update is None:
        raise NotPlanned(f"command {key.command} of the Plan {RUNNING_PLAN} has no {key.kind}")
    _check_named(machine, key, progress)
    return _for_platform(machine, update)


def _check_named(machine: Object, key: TurnIdentity, progress: PlanCommandStatus) -> None:
    state = next((each.state for each in _targets(machine, key, progress) if each.name == machine.name), "")
    if not state:
        raise NotPlanned(f"the Plan {RUNNING_PLAN} does not name {machine.name}")
    if state not in _ON_TURN:
        detail = f"its state in the Plan {RUNNING_PLAN} is {state}"
        raise NotPlanned(f"it is not the turn of {machine.name}: {detail}")


def _targets(machine: Object, key: TurnIdentity, progress: PlanCommandStatus) -> tuple[TargetStatus, ...]:
    if key.kind == "airgapupdate":
        return progress.airgapupdate.workers if progress.airgapupdate else ()
    if progress.k0supdate is None:
        return ()
    is_controller = machine.noun == ControlNode
    return progress.k0supdate.controllers if is_controller else progress.k0supdate.workers


def _for_platform(machine: Object, update: K0sUpdate | AirgapUpdate) -> Payload:
    labels = machine.labels
    platform = f"{labels.get('kubernetes.io/os', '')}-{labels.get('kubernetes.io/arch', '')}"
    resource = update.platforms.get(platform)
    if resource is None:
        raise NotPlanned(f"the Plan {RUNNING_PLAN} has nothing for the platform {platform} of {machine.name}")
    forced = isinstance(update, K0sUpdate) and update.forceupdate
    return Payload(resource.url, update.version, platform, resource.sha256 or "", forced=forced)
