"""Which versions the targets of an UpdateConfig run.

    older_targets("v1.32.4+k0s.0", commands, plan, world)      # ["controller-1 (v1.32.3+k0s.0)", …]

A ControlNode reports its version in its status. A worker's is the annotation ``RUNNING_VERSION`` of its Node,
else that of its kubelet. Distributions release both under one number, but kubelets do not name the build of
the distribution, so these are compared by their release alone. Nodes of our own agent name the version of the
API there, which says nothing about payloads. A machine that reports no version is no reason for an update,
nor is one that the last run has updated to the offer, whatever it reports.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from pilothouse.api.k0s.release_versions import newer, release_order
from pilothouse.api.k0s.v1beta2 import RUNNING_VERSION
from pilothouse.api.kind_names import ControlNode, Node
from pilothouse.api.objects import Object
from pilothouse.meta.selectors import FieldSelector, LabelSelector
from pilothouse.runtime.snapshot import Snapshot

_OUR_BUILD: Final = "pilothouse"


def older_targets(
    offered: str, commands: Sequence[Mapping[str, Any]], plan: Object | None, world: Snapshot
) -> list[str]:
    """The targets that run something older than an offer, by name and version."""
    done = _updated_to(offered, plan)
    return [
        f"{one.name} ({_version(one)})"
        for one in _machines(commands, world)
        if one.name not in done and _is_older(one, offered)
    ]


def silent_targets(commands: Sequence[Mapping[str, Any]], world: Snapshot) -> list[str]:
    """The names of the targets that report no version."""
    return [one.name for one in _machines(commands, world) if not _version(one)]


def _machines(commands: Sequence[Mapping[str, Any]], world: Snapshot) -> list[Object]:
    """The targets, each once: a machine that is both is updated as a controller."""
    found = {one.name: one for one in _targets(commands, "controllers", world.all(ControlNode))}
    for worker in _targets(commands, "workers", world.all(Node)):
        found.setdefault(worker.name, worker)
    return list(found.values())


def _version(one: Object) -> str:
    """What a machine runs; empty if that is not known."""
    if one.noun == ControlNode:
        return str(one.status.get("k0sVersion") or "")
    if version := one.annotations.get(RUNNING_VERSION, ""):
        return version
    version = str(one.at("status", "nodeInfo", "kubeletVersion") or "")
    try:
        running, _ = release_order(version)
    except ValueError:
        return ""
    return "" if running.build.startswith(_OUR_BUILD) else version


def _is_older(one: Object, offered: str) -> bool:
    version = _version(one)
    if not version:
        return False
    if one.noun == ControlNode or RUNNING_VERSION in one.annotations:
        return newer(offered, version)
    running, build = release_order(version)
    release, offered_build = release_order(offered)
    return running < release or (running == release and -1 < build < offered_build)


def _updated_to(offered: str, plan: Object | None) -> frozenset[str]:
    """The machines that the plan's last run has brought to the offer."""
    if plan is None or plan.status.get("state") != "Completed":
        return frozenset()
    names = set()
    commands = plan.at("status", "spec", "commands") or ()
    for command, progress in zip(commands, plan.status.get("commands") or (), strict=False):
        if (command.get("k0supdate") or {}).get("version") != offered:
            continue
        for group in ("controllers", "workers"):
            for target in (progress.get("k0supdate") or {}).get(group) or ():
                if target.get("state") == "SignalCompleted":
                    names.add(target["name"])
    return frozenset(names)


def _targets(
    commands: Sequence[Mapping[str, Any]], group: str, objects: Sequence[Object]
) -> Iterator[Object]:
    """The objects that a k0supdate among the commands targets."""
    targets = [
        target["discovery"]
        for command in commands
        if (target := ((command.get("k0supdate") or {}).get("targets") or {}).get(group)) is not None
    ]
    return (one for one in objects if any(_selects(discovery, one) for discovery in targets))


def _selects(discovery: Mapping[str, Any], one: Object) -> bool:
    if (static := discovery.get("static")) is not None:
        return one.name in (static.get("nodes") or ())
    selector = discovery.get("selector")
    if selector is None:
        return False
    labels = LabelSelector.parse(selector.get("labels") or "")
    fields = FieldSelector.parse(selector.get("fields") or "")
    return labels.matches(one.labels) and fields.matches(
        lambda field: one.name if field == "metadata.name" else ""
    )
