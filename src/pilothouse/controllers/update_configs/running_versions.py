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
    controllers = {one.name: one for one in _targets(commands, "controllers", world.all(ControlNode))}
    workers = {one.name: one for one in _targets(commands, "workers", world.all(Node))}
    versions = {name: _older_worker(one, offered) for name, one in workers.items()}
    # A machine that is both is updated as a controller.
    versions |= {name: _older_controller(one, offered) for name, one in controllers.items()}
    by_name = {name: versions[name] for name in (*controllers, *workers)}
    return [f"{name} ({version})" for name, version in by_name.items() if version and name not in done]


def _older_controller(one: Object, offered: str) -> str:
    """The version of a controller that is older than an offer; empty if it is not, or not known."""
    version = str(one.status.get("k0sVersion") or "")
    return version if version and newer(offered, version) else ""


def _older_worker(node: Object, offered: str) -> str:
    """The version of a worker that is older than an offer; empty if it is not, or not known."""
    if version := node.annotations.get(RUNNING_VERSION, ""):
        return version if newer(offered, version) else ""
    version = str(node.at("status", "nodeInfo", "kubeletVersion") or "")
    try:
        running, build = release_order(version)
    except ValueError:
        return ""
    if running.build.startswith(_OUR_BUILD):
        return ""
    release, offered_build = release_order(offered)
    older = running < release or (running == release and -1 < build < offered_build)
    return version if older else ""


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
