"""The targets of a command: the machines that its names or selectors find, once, when a run starts.

Names win over selectors. A name counts once. A worker whose ControlNode has the same name is updated as a
controller, and not a second time; bundles go to its Node all the same. The wave of a worker is found here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from pilothouse.api.k0s.rollout import SelectorDiscovery, Wave
from pilothouse.api.k0s.v1beta2 import Discovery, TargetStatus
from pilothouse.api.kind_names import ControlNode
from pilothouse.api.objects import Object
from pilothouse.controllers.plans.stages import NO_MACHINE, NO_PLATFORM, PENDING, Stage, Targets
from pilothouse.controllers.plans.turn_signals import platform_of
from pilothouse.meta.selectors import FieldSelector, LabelSelector
from pilothouse.runtime.snapshot import Snapshot


def discover(stage: Stage, waves: tuple[Wave, ...], world: Snapshot, now: str) -> Targets:
    """The targets of a stage, by name."""
    target = stage.target
    if target is None:
        return ()
    names = sorted(set(_names(target.discovery, stage, world)))
    if stage.part == "workers":
        names = [name for name in names if not _is_controller(name, world)]
    matchers = [matcher(wave.selector) for wave in waves if stage.part != "controllers"]
    return tuple(_status(name, stage, matchers, world, now) for name in names)


def matcher(selector: SelectorDiscovery) -> Callable[[Object], bool]:
    """Whether a machine is selected by its labels and its name."""
    labels, fields = LabelSelector.parse(selector.labels), FieldSelector.parse(selector.fields)

    def matches(machine: Object) -> bool:
        return labels.matches(machine.labels) and fields.matches(lambda field: machine.name)

    return matches


def _names(discovery: Discovery, stage: Stage, world: Snapshot) -> Iterable[str]:
    if discovery.static is not None:
        return discovery.static.nodes
    if discovery.selector is None:
        return ()
    matches = matcher(discovery.selector)
    return (machine.name for machine in world.all(stage.noun) if matches(machine))


def _is_controller(name: str, world: Snapshot) -> bool:
    return world.find(ControlNode, "", name) is not None


def _status(
    name: str, stage: Stage, waves: list[Callable[[Object], bool]], world: Snapshot, now: str
) -> TargetStatus:
    machine = world.find(stage.noun, "", name)
    if machine is None:
        description = f"there is no {stage.noun.kind} {name}"
        return TargetStatus(name=name, state=NO_MACHINE, last_updated_timestamp=now, description=description)
    if problem := platform_problem(machine, stage):
        return TargetStatus(name=name, state=NO_PLATFORM, last_updated_timestamp=now, description=problem)
    wave = next((number for number, matches in enumerate(waves, 1) if matches(machine)), 0)
    return TargetStatus(name=name, state=PENDING, last_updated_timestamp=now, wave=wave)


def platform_problem(machine: Object, stage: Stage) -> str:
    """Why a machine has no download in the plan; empty if it has one."""
    platform = platform_of(machine.labels)
    if not platform:
        return "it has no labels kubernetes.io/os and kubernetes.io/arch"
    if platform not in stage.update.platforms:
        return f"the plan has no download for {platform}"
    return ""
