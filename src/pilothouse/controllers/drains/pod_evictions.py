"""Evictions of a drain: which pods leave a machine, which may go at this moment, and what keeps the others.

intents, kept = evictions(turn, node, pods, options, by_force, world)
listed(kept)                                    # "pod a/b: disruption budget …; 2 pods terminate"
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from pilothouse.api.kind_names import Pod
from pilothouse.api.objects import Object
from pilothouse.controllers.disruptions import DisruptionAccount, delete_by_force
from pilothouse.controllers.drains.machine_turns import MachineTurn
from pilothouse.runtime.intents import Intent, RecordEvent
from pilothouse.runtime.snapshot import Snapshot

BY: Final = "drains"
_MIRROR: Final = "kubernetes.io/config.mirror"
_STAYING_OWNERS: Final = ("DaemonSet", "Node")
_MOST_NAMED: Final = 3


def leaving_pods(node: Object, world: Snapshot) -> list[Object]:
    """The pods that leave a Node that is drained."""
    return [pod for pod in world.where(Pod, "spec.nodeName", node.name) if not _stays(pod)]


def _stays(pod: Object) -> bool:
    """Whether a pod stays on a Node that is drained: it belongs to the machine."""
    owner = pod.controller or {}
    return _MIRROR in pod.annotations or owner.get("kind") in _STAYING_OWNERS


def evictions(
    turn: MachineTurn,
    node: Object,
    pods: Sequence[Object],
    options: Mapping[str, Any],
    by_force: bool,
    world: Snapshot,
) -> tuple[list[Intent], dict[str, str]]:
    """Evictions of the pods that may go, and each pod that is left, with what keeps it."""
    account = DisruptionAccount(world)
    grace = options.get("gracePeriodSeconds")
    because = f"node {node.name} is updated {turn.target}"
    intents: list[Intent] = []
    kept: dict[str, str] = {}
    for pod in pods:
        name = f"{pod.namespace}/{pod.name}"
        if pod.deleting:
            kept[name] = ""
        elif not (why := account.why_kept(pod)):
            kept[name] = ""
            intents.append(account.evict(pod, by=BY, because=because, grace=grace))
            intents.append(RecordEvent(pod, because=because, event="Evicted"))
        elif by_force:
            kept[name] = ""
            forced = f"{because}; {why}, for longer than {options['forceAfter']}"
            intents += delete_by_force(pod, by=BY, because=forced, now=world.now, grace=grace)
            intents.append(RecordEvent(pod, because=forced, event="EvictedByForce", warning=True))
        else:
            kept[name] = why
    return intents, kept


def listed(kept: Mapping[str, str]) -> str:
    """The pods that are left, those that are kept first: "pod a/b: disruption budget …; 2 pods terminate"."""
    blocked = [f"pod {name}: {why}" for name, why in kept.items() if why]
    leaving = sum(not why for why in kept.values())
    named = blocked[:_MOST_NAMED]
    if len(blocked) > _MOST_NAMED:
        named.append(f"{len(blocked) - _MOST_NAMED} more pods are kept")
    if leaving:
        named.append(f"{leaving} {'pod terminates' if leaving == 1 else 'pods terminate'}")
    return "; ".join(named)
