"""The waves of a rollout: workers in groups, one group after the other, each in the order of names.

The wave of a worker is found with the targets, when the run starts, and is kept in its status. Labels that
change in a run, and Nodes that go, move no worker to another wave.
"""

from __future__ import annotations

from pilothouse.api.k0s.rollout import Wave
from pilothouse.controllers.plans.stages import PENDING, UNFINISHED, Targets


def in_waves(targets: Targets, waves: tuple[Wave, ...]) -> list[tuple[str, Targets]]:
    """The name and the targets of each wave that has any; those that no wave selects come last."""
    if not waves:
        return [("", targets)]
    names = {number: wave.name or f"wave {number}" for number, wave in enumerate(waves, 1)}
    names[0] = "the rest"
    found = ((name, tuple(one for one in targets if one.wave == number)) for number, name in names.items())
    return [(name, members) for name, members in found if members]


def next_wave(targets: Targets, waves: tuple[Wave, ...]) -> tuple[str, Targets]:
    """The first wave that is not finished."""
    for name, members in in_waves(targets, waves):
        if any(target.state in UNFINISHED for target in members):
            return name, members
    return "", ()


def last_wave_begun(targets: Targets, waves: tuple[Wave, ...]) -> Targets:
    """The last wave of which a machine was begun."""
    begun = [
        members
        for _, members in in_waves(targets, waves)
        if any(target.state != PENDING for target in members)
    ]
    return begun[-1] if begun else ()
