"""The kinds of the group ``autopilot.k0sproject.io``."""

from __future__ import annotations

from typing import Final

from pilothouse.api.k0s import v1beta2
from pilothouse.api.k0s.plan_validation import check_plan, check_update_config
from pilothouse.api.own_kinds import AGE, GroupVersion, condition_column, path_column
from pilothouse.meta.kind import Resource, single

_V1BETA2: Final = GroupVersion(v1beta2.GROUP, v1beta2.VERSION, v1beta2.PACKAGE)

PLAN: Final = _V1BETA2.kind(
    v1beta2.Plan,
    namespaced=False,
    columns=(
        path_column("State", ".status.state", "How far the plan is."),
        path_column("Progress", ".status.progress", "How many machines are done, of how many."),
        AGE,
        path_column("Id", ".spec.id", "The creator's name for it.", wide=True),
        condition_column(
            "Message", "Progressing", "What it is doing or waiting for.", field="message", wide=True
        ),
    ),
    selectable={"status.state": ".status.state"},
    validate=check_plan,
)
CONTROL_NODE: Final = _V1BETA2.kind(
    v1beta2.ControlNode,
    namespaced=False,
    columns=(
        condition_column("Ready", "Ready", "Whether its heartbeat is renewed."),
        path_column("Version", ".status.k0sVersion", "The version it runs."),
        path_column(
            "Address", '.status.addresses[?(@.type=="InternalIP")].address', "Where it can be reached."
        ),
        AGE,
    ),
)
UPDATE_CONFIG: Final = _V1BETA2.kind(
    v1beta2.UpdateConfig,
    namespaced=False,
    columns=(
        path_column("Channel", ".spec.channel", "The channel it follows."),
        path_column("Strategy", ".spec.upgradeStrategy.type", "How its time is chosen."),
        path_column("Available", ".status.availableVersion", "The version that was offered."),
        path_column("Last Check", ".status.lastCheckTime", "When it last checked.", type="date"),
        condition_column("Reason", "Progressing", "What happens, or why nothing does.", field="reason"),
        AGE,
        path_column("Server", ".spec.updateServer", "The server that it checks.", wide=True),
        condition_column(
            "Message", "Progressing", "What happens, or why nothing does.", field="message", wide=True
        ),
    ),
    validate=check_update_config,
)


def resources() -> tuple[Resource, ...]:
    return tuple(map(single, (PLAN, CONTROL_NODE, UPDATE_CONFIG)))
