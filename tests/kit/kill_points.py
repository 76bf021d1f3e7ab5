"""The points of a plan's life at which its parts are killed, and the parts.

| point | the moment when |
|---|---|
| plan accepted | the run has started, and its checks are being made |
| readiness asked | the readiness of the control hosts is asked for, and not answered |
| controller signalled | the first controller has its signal, and has not answered |
| ApplyingUpdate | the first controller has passed its drain |
| Completed, not seen | the turn of the first controller has ended, and the plan is about to count it |
| between controllers | the first controller counts, and the second has no turn |
| Downloading, Restart | the second controller is there |
| Cordoning, UnCordoning | the third controller is there |
| first worker signalled | the first worker has its signal, and has not answered |
| last worker's status | the turn of the last worker has ended, and the plan is about to |

They are in the order in which one run of three controllers and three workers comes to them, and far enough apart
that a part which was killed at one of them is back at the next.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple

from tests.kit.fleet_watch import FleetView
from tests.kit.update_fleet import UpdateFleet

Victim = Literal["leader", "agent", "API server", "program"]
VICTIMS: tuple[Victim, ...] = ("leader", "program", "agent", "API server")
"""In the order in which those of a pair are killed: a program has to run, and without its agent it may not."""


class KillPoint(NamedTuple):
    name: str
    machine: str
    """Whose turn it is, or comes next: its agent and program are the ones to kill."""
    reached: Callable[[FleetView], bool]


def _at_step(machine: str, step: str, name: str = "") -> KillPoint:
    return KillPoint(name or step, machine, lambda view: view.step(machine) == step)


def _is_accepted(view: FleetView) -> bool:
    return view.status.get("spec") is not None and not view.status.get("commands")


def _is_asked(view: FleetView) -> bool:
    questions, answers = view.status.get("questions") or {}, view.status.get("answers") or {}
    return bool(questions.get("readiness")) and answers.get("number") != questions.get("number")


def _is_between(view: FleetView) -> bool:
    states = view.state("controller0"), view.state("controller1")
    return states == ("SignalCompleted", "SignalPending")


KILL_POINTS = (
    KillPoint("plan accepted", "controller0", _is_accepted),
    KillPoint("readiness asked", "controller0", _is_asked),
    _at_step("controller0", "", "controller signalled"),
    _at_step("controller0", "ApplyingUpdate"),
    _at_step("controller0", "Completed", "Completed, not seen"),
    KillPoint("between controllers", "controller1", _is_between),
    _at_step("controller1", "Downloading"),
    _at_step("controller1", "Restart"),
    _at_step("controller2", "Cordoning"),
    _at_step("controller2", "UnCordoning"),
    _at_step("worker0", "", "first worker signalled"),
    _at_step("worker2", "Completed", "last worker's status"),
)


def kill(fleet: UpdateFleet, victim: Victim, point: KillPoint) -> Callable[[], None]:
    """Kill a part with SIGKILL. What it returns starts the part again."""
    machine = fleet.machine(point.machine)
    match victim:
        case "leader":
            leader = fleet.leader()
            leader.kill_manager()
            return leader.start_manager
        case "agent":
            machine.kill_agent()
            return machine.start_agent
        case "program":
            # The plan keeps two control hosts from being away; the test must not take away the second one.
            others = [one for one in fleet.controllers if one is not machine]
            fleet.wait(lambda: all(one.version() for one in others), "the other control hosts")
            machine.kill_program()
            return _nothing
        case "API server":
            fleet.server.process.kill()
            return fleet.server.revive


def _nothing() -> None:
    """The agent starts the program again."""
