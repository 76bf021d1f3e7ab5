"""The kinds of the group ``autopilot.k0sproject.io``."""

from __future__ import annotations

from typing import Final

from pilothouse.api.k0s import v1beta2
from pilothouse.api.k0s.plan_validation import check_plan, check_update_config
from pilothouse.meta.kind import Column, Kind, Resource
from pilothouse.meta.schema.struct_schemas import schema_of

_AGE: Final = Column(
    name="Age", type="date", path=".metadata.creationTimestamp", description="Time since it was created."
)

PLAN: Final = Kind(
    group=v1beta2.GROUP,
    version=v1beta2.VERSION,
    name="Plan",
    plural="plans",
    categories=("all", "pilothouse"),
    namespaced=False,
    schema=schema_of(v1beta2.Plan, v1beta2.PACKAGE),
    status=True,
    columns=(
        Column(name="State", path=".status.state", description="How far the plan is."),
        _AGE,
        Column(name="Id", path=".spec.id", description="The creator's name for it.", priority=1),
        Column(
            name="Message",
            path='.status.conditions[?(@.type=="Progressing")].message',
            description="What it is doing or waiting for.",
            priority=1,
        ),
    ),
    selectable={"status.state": ".status.state"},
    validate=check_plan,
    unattended="no controller carries out Plans yet: it is stored, but no machine is updated",
)
CONTROL_NODE: Final = Kind(
    group=v1beta2.GROUP,
    version=v1beta2.VERSION,
    name="ControlNode",
    plural="controlnodes",
    categories=("all", "pilothouse"),
    namespaced=False,
    schema=schema_of(v1beta2.ControlNode, v1beta2.PACKAGE),
    status=True,
    columns=(
        Column(name="Version", path=".status.k0sVersion", description="The version it runs."),
        Column(
            name="Address",
            path='.status.addresses[?(@.type=="InternalIP")].address',
            description="Where it can be reached.",
        ),
        _AGE,
    ),
    unattended="no controller acts on ControlNodes yet: it is stored, but has no effect",
)
UPDATE_CONFIG: Final = Kind(
    group=v1beta2.GROUP,
    version=v1beta2.VERSION,
    name="UpdateConfig",
    plural="updateconfigs",
    categories=("all", "pilothouse"),
    namespaced=False,
    schema=schema_of(v1beta2.UpdateConfig, v1beta2.PACKAGE),
    status=True,
    columns=(
        Column(name="Channel", path=".spec.channel", description="The channel it follows."),
        Column(name="Strategy", path=".spec.upgradeStrategy.type", description="How its time is chosen."),
        Column(
            name="Available", path=".status.availableVersion", description="The version that was offered."
        ),
        Column(
            name="Last Check", type="date", path=".status.lastCheckTime", description="When it last checked."
        ),
        _AGE,
        Column(
            name="Server", path=".spec.updateServer", description="The server that it checks.", priority=1
        ),
    ),
    validate=check_update_config,
    unattended="no controller follows UpdateConfigs yet: it is stored, but no Plan is created",
)


def resources() -> tuple[Resource, ...]:
    """Plans, the controllers they update, and who makes plans."""
    return tuple(
        Resource(kinds=(kind,), storage=v1beta2.VERSION) for kind in (PLAN, CONTROL_NODE, UPDATE_CONFIG)
    )
