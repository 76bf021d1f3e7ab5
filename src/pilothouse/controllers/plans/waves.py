"""The waves of a rollout: workers in groups, one group after the other, each in the order of names."""

from __future__ import annotations

from pilothouse.api.k0s.rollout import Wave
from pilothouse.api.kind_names import Node
from pilothouse.controllers.plans.discovery import matcher
from pilothouse.controllers.plans.stages import PENDING, UNFINISHED, Targets
from pilothouse.runtime.snapshot import Snapshot


def in_waves(targets: Targets, waves: tuple[Wave, ...], world: Snapshot) -> list[tuple[str, Targets]]:
    """The name and the targets of each wave that has any; those that no wave selects come last."""
    if not waves:
        return [("", targets)]
    rest = {target.name: target for target in targets}
    nodes = [node for node in world.all(Node) if node.name in rest]
    found: list[tuple[str, Targets]] = []
    for number, wave in enumerate(waves, 1):
        matches = matcher(wave.selector)
        names = [node.name for node in nodes if node.name in rest and matches(node)]
        if names:
            found.append((wave.name or f"wave {number}", tuple(rest.pop(name) for name in names)))
    return [*found, ("the rest", tuple(rest.values()))] if rest else found


def next_wave(targets: Targets, waves: tuple[Wave, ...], world: Snapshot) -> tuple[str, Targets]:
    """The first wave that is not finished."""
    for name, members in in_waves(targets, waves, world):
        if any(target.state in UNFINISHED for target in members):
            return name, members
    return "", ()


def last_wave_begun(targets: Targets, waves: tuple[Wave, ...], world: Snapshot) -> Targets:
    """The last wave of which a machine was begun."""
    begun = [
        members
        for _, members in in_waves(targets, waves, world)
        if any(target.state != PENDING for target in members)
    ]
    return begun[-1] if begun else ()
