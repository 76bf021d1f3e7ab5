"""Every reachable state of a plan over one to seven controllers and a worker, around the real decision function.

A state is what is stored, what the controller's caches show (which may be older), the writes of the last decision that have
not arrived, and the observer's answer that is under way. Breadth first, each transition is one event: a
decision, a write that arrives, is lost or arrives twice, an answer with any hosts down, a step of an agent, a version that
is reported, a cache that catches up, time that passes. Writes of an earlier leader are not among them: the
server refuses them by their epoch (``tests/runtime``).

Checked when a signal is written, for P9 of the reliability rules: no other controller is in progress; since the last step
of any controller, each one was observed to be ready; no machine is signalled twice; no worker before every controller runs
the version. Whether an answer was observed since the last step is kept beside the status, where the controller can't see it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from itertools import islice, pairwise, product
from typing import Any, NamedTuple

import msgspec
import pytest
from tests.kit.plan_fleet import EVERY, NEW, OLD, control_node, node, update

from pilothouse.api.k0s.signals import Signal, SignalCommand, SignalUpdate
from pilothouse.api.kind_names import ControlNode, Node, Plan
from pilothouse.api.objects import Object, Tree
from pilothouse.base.rfc3339 import format_time
from pilothouse.controllers.plans.plan_controller import plans
from pilothouse.runtime.intents import Intent, PatchObject, SetStatus
from pilothouse.runtime.snapshot import Snapshot, StaticView

NOW = 1_000_000.0
UID = "plan-uid"
AGES = (0.0, 15.0, 40.0)
"""How old an answer may be: it is acted on, asked again if it was bad, and no longer acted on."""
OLDER = b"{}"
"""Any older status on which no signal is decided."""
Decide = Callable[[Object, Snapshot], list[Intent]]


class Violation(AssertionError):
    """A state in which a rule is broken."""


class Host(NamedTuple):
    """A control host: the step of its signal (None without one), and whether it reports the new version."""

    step: str | None = None
    updated: bool = False

    @property
    def in_progress(self) -> bool:
        return self.step in ("", "Restart")


class Write(NamedTuple):
    """A write on its way: a status, or the signal of a controller or (-1) of the worker."""

    status: bytes = b""
    host: int = -1
    seen: Host = Host()
    unchanged: bool = True
    """Whether the plan is still the version that the decision saw."""
    justified: bool = False
    """Whether the answer behind it was observed since the last step, and good."""


class Answer(NamedTuple):
    number: int
    ready: tuple[bool, ...]
    since_last_step: bool = True


class State(NamedTuple):
    status: bytes
    since_last_step: bool
    """Whether the answer in the status was observed since the last step."""
    hosts: tuple[Host, ...]
    cached: bytes | None = None
    """An older status that the controller's cache shows; None if it shows this one."""
    cached_since_last_step: bool = False
    cached_hosts: tuple[Host, ...] = ()
    answer: Answer | None = None
    writes: tuple[Write, ...] = ()
    worker: bool = False


class Machine:
    """The transitions of a plan over so many controllers. ``one_down``: of the answers in which hosts are down, one."""

    def __init__(
        self,
        controllers: int,
        *,
        decide: Decide | None = None,
        on_not_ready: str = "end",
        one_down: bool = False,
    ) -> None:
        self.size = controllers
        self.one_down = one_down
        self._decide = decide or plans()
        self._spec = {
            "id": "id123",
            "commands": [update(controllers=EVERY, workers=EVERY)],
            "rollout": {"onNotReady": on_not_ready},
        }
        self._decisions: dict[tuple[bytes, tuple[Host, ...], bool], tuple[Write, ...]] = {}
        self._parsed: dict[bytes, Tree] = {}

    def first(self) -> State:
        """The state in which the targets are known and nothing was begun."""
        hosts = (Host(),) * self.size
        state = State(b"{}", False, hosts, cached_hosts=hosts)
        for _ in range(2):
            (write,) = self._decided(state.status, hosts, False)
            tree = msgspec.json.decode(write.status)
            if asked := tree.get("questions"):
                found = [{"version": version} for version in asked["removedApis"]]
                tree["answers"] = {"number": asked["number"], "time": format_time(NOW), "removedApis": found}
            state = state._replace(status=msgspec.json.encode(tree))
        return state

    def ended(self, state: State) -> bool:
        return "completedTime" in self.tree(state.status) or state.worker

    def tree(self, status: bytes) -> Tree:
        found = self._parsed.get(status)
        if found is None:
            found = self._parsed[status] = msgspec.json.decode(status)
        return found

    def numbers(self, status: bytes) -> list[int]:
        tree = self.tree(status)
        return [tree[key]["number"] for key in ("questions", "answers") if tree.get(key)]

    def renumbered(self, status: bytes, numbers: dict[int, int]) -> bytes:
        tree = dict(self.tree(status))
        for key in ("questions", "answers"):
            if tree.get(key):
                tree[key] = {**tree[key], "number": numbers[tree[key]["number"]]}
        return msgspec.json.encode(tree)

    def next_states(self, state: State) -> Iterator[State]:
        yield from self._of_the_controller(state)
        yield from self._of_the_observer(state)
        yield from self._of_the_hosts(state)
        if state.cached is not None:
            yield state._replace(cached=None, cached_since_last_step=False)
        if state.cached_hosts != state.hosts:
            yield state._replace(cached_hosts=state.hosts)

    def _of_the_controller(self, state: State) -> Iterator[State]:
        if not state.writes:
            if state.cached == OLDER:
                return
            seen = state.status if state.cached is None else state.cached
            good = state.since_last_step if state.cached is None else state.cached_since_last_step
            good = good and self._all_ready(seen)
            writes = tuple(
                write._replace(justified=good, unchanged=state.cached is None)
                for write in self._decided(seen, state.cached_hosts, state.worker)
            )
            if writes:
                yield state._replace(writes=writes)
            return
        arrived = self._arrived(state)
        yield arrived
        # Lost, and with it those behind it; or the process dies before it sends those.
        yield state._replace(writes=())
        yield arrived._replace(writes=())
        # Sent twice: what it is about has changed by the first.
        yield self._arrived(arrived._replace(writes=(state.writes[0]._replace(unchanged=False),)))

    def _arrived(self, state: State) -> State:
        """The first write reaches the server, which refuses it if what it is about has changed."""
        write, rest = state.writes[0], state.writes[1:]
        if write.status:
            if not write.unchanged:
                return state._replace(writes=())
            return state._replace(
                status=write.status,
                cached=state.status if state.cached is None else state.cached,
                cached_since_last_step=(
                    state.since_last_step if state.cached is None else state.cached_since_last_step
                ),
                writes=rest,
            )
        if write.host < 0:
            if not all(host.step == "Completed" and host.updated for host in state.hosts):
                raise Violation(f"the worker is signalled while the controllers are {state.hosts}")
            return state._replace(worker=True, writes=rest)
        if state.hosts[write.host] != write.seen:
            return state._replace(writes=())
        if state.hosts[write.host].step is not None:
            raise Violation(f"controller {write.host} is signalled twice")
        if any(host.in_progress for host in state.hosts):
            raise Violation(f"controller {write.host} is signalled while the controllers are {state.hosts}")
        if not write.justified:
            raise Violation(
                f"controller {write.host} is signalled, but not all were ready since the last step"
            )
        return _stepped(state._replace(writes=rest), write.host, Host(""))

    def _of_the_observer(self, state: State) -> Iterator[State]:
        tree = self.tree(state.status)
        asked, answers = tree.get("questions"), tree.get("answers") or {}
        if asked is not None and asked["number"] != answers.get("number") and state.answer is None:
            # Any of the hosts may be down at this moment; one that restarts is.
            up = [(False,) if host.step == "Restart" else (True, False) for host in state.hosts]
            for ready in islice(product(*up), 2 if self.one_down else None):
                yield state._replace(answer=Answer(asked["number"], ready))
        if state.answer is not None:
            yield state._replace(answer=None)
            yield self._answered(state, state.answer)
        older = {format_time(NOW - age): format_time(NOW - more) for age, more in pairwise(AGES)}
        if answers.get("time") in older:
            aged = {**tree, "answers": {**answers, "time": older[answers["time"]]}}
            # Time passes for the cache as well.
            yield state._replace(status=msgspec.json.encode(aged), cached=None, writes=())

    def _answered(self, state: State, answer: Answer) -> State:
        readiness = [
            {"name": f"c{number}", "ready": ready, "message": "200" if ready else "503"}
            for number, ready in enumerate(answer.ready)
        ]
        found = {"number": answer.number, "time": format_time(NOW), "readiness": readiness}
        return state._replace(
            status=msgspec.json.encode({**self.tree(state.status), "answers": found}),
            since_last_step=answer.since_last_step,
            cached=state.status if state.cached is None else state.cached,
            cached_since_last_step=(
                state.since_last_step if state.cached is None else state.cached_since_last_step
            ),
            answer=None,
            writes=tuple(write._replace(unchanged=False) for write in state.writes),
        )

    def _of_the_hosts(self, state: State) -> Iterator[State]:
        for number, host in enumerate(state.hosts):
            if host.step == "":
                yield _stepped(state, number, host._replace(step="Restart"))
            elif host.step == "Restart":
                yield _stepped(state, number, host._replace(step="Completed"))
                yield _stepped(state, number, host._replace(step="Failed"))
            elif host.step == "Completed" and not host.updated:
                hosts = _replaced(state.hosts, number, host._replace(updated=True))
                yield state._replace(hosts=hosts)

    def _all_ready(self, status: bytes) -> bool:
        found = (self.tree(status).get("answers") or {}).get("readiness") or []
        return len(found) == self.size and all(each["ready"] for each in found)

    def _decided(self, status: bytes, hosts: tuple[Host, ...], worker: bool) -> tuple[Write, ...]:
        """The writes of the real controller."""
        key = (status, hosts, worker)
        if key not in self._decisions:
            self._decisions[key] = tuple(self._writes(self._intents(*key), status, hosts))
        return self._decisions[key]

    def _intents(self, status: bytes, hosts: tuple[Host, ...], worker: bool) -> list[Intent]:
        machines = [_control_node(number, host) for number, host in enumerate(hosts)]
        nodes = [_signalled(node("w0"), Host("") if worker else Host())]
        plan = {
            "apiVersion": Plan.api_version,
            "kind": "Plan",
            "metadata": {"name": "autopilot", "uid": UID, "generation": 1},
            "spec": self._spec,
            "status": self.tree(status),
        }
        views = {ControlNode: StaticView(machines), Node: StaticView(nodes)}
        return self._decide(Object.of(plan), Snapshot(views, now=NOW))

    def _writes(self, intents: list[Intent], status: bytes, hosts: tuple[Host, ...]) -> Iterator[Write]:
        for intent in intents:
            if isinstance(intent, SetStatus):
                if (written := _for_the_machine(intent.status)) != status:
                    yield Write(status=written)
            elif isinstance(intent, PatchObject) and intent.seen.noun == ControlNode:
                number = int(intent.seen.name[1:])
                assert intent.exact
                yield Write(host=number, seen=hosts[number])
            elif isinstance(intent, PatchObject):
                yield Write()


def _for_the_machine(status: Tree) -> bytes:
    """A status without what only people read: no decision depends on it."""
    kept = {name: part for name, part in status.items() if name not in ("conditions", "history", "progress")}
    for command in kept.get("commands", ()):
        command.pop("description", None)
        for targets in command.get("k0supdate", {}).values():
            for target in targets:
                target.pop("description", None)
    return msgspec.json.encode(kept)


def _stepped(state: State, number: int, host: Host) -> State:
    """A controller has begun or ended its turn, or gone down: what was observed before is out of date."""
    answer = state.answer._replace(since_last_step=False) if state.answer is not None else None
    return state._replace(
        hosts=_replaced(state.hosts, number, host),
        since_last_step=False,
        cached_since_last_step=False,
        answer=answer,
        writes=tuple(write._replace(justified=False) for write in state.writes),
    )


def _replaced(items: tuple[Any, ...], number: int, item: object) -> tuple[Any, ...]:
    return (*items[:number], item, *items[number + 1 :])


def _control_node(number: int, host: Host) -> Tree:
    return _signalled(control_node(f"c{number}", version=NEW if host.updated else OLD), host)


def _signalled(tree: Tree, host: Host) -> Tree:
    if host.step is None:
        return tree
    url = "http://updates.example/k0s"
    command = SignalCommand(0, k0supdate=SignalUpdate(url, NEW, "0" * 64))
    signal = Signal("id123", format_time(NOW), command, plan_uid=UID, generation=1)
    if host.step:
        signal = signal.advanced(host.step, format_time(NOW))
    tree["metadata"]["annotations"] = signal.annotations()
    return tree


def canonical(state: State, machine: Machine) -> State:
    """The state, in the form that stands for all that have the same future.

    Writes that the server will refuse are gone. So is an older status in the cache that has nobody in progress: whatever
    is decided on it begins with a status, which is refused. Questions are counted from 1, since only their order matters.
    """
    writes = state.writes
    if writes and writes[0].status and not writes[0].unchanged:
        writes = ()
    if writes and writes[0].host >= 0 and state.hosts[writes[0].host] != writes[0].seen:
        writes = ()
    cached = state.cached
    if cached is not None and b"SignalSent" not in cached:
        cached = OLDER
    return _with_small_numbers(state._replace(writes=writes, cached=cached), machine)


def _with_small_numbers(state: State, machine: Machine) -> State:
    statuses = {state.status, *(write.status for write in state.writes)} - {b""}
    if state.cached is not None:
        statuses.add(state.cached)
    numbers = {number for status in statuses for number in machine.numbers(status)}
    if state.answer is not None:
        numbers.add(state.answer.number)
    small = {number: rank for rank, number in enumerate(sorted(numbers), 1)}
    if all(number == rank for number, rank in small.items()):
        return state
    renumbered = {status: machine.renumbered(status, small) for status in statuses}
    return state._replace(
        status=renumbered[state.status],
        cached=None if state.cached is None else renumbered[state.cached],
        answer=state.answer and state.answer._replace(number=small[state.answer.number]),
        writes=tuple(
            write._replace(status=renumbered[write.status]) if write.status else write
            for write in state.writes
        ),
    )


OUTCOMES = {
    "end": {"worker", "ApplyFailed", "InconsistentTargets"},
    "wait": {"worker", "ApplyFailed"},
}
"""All that a plan can come to; in every one of them nothing was broken."""


class Explored(NamedTuple):
    states: int
    outcomes: frozenset[str]
    """How the plan ended; ``worker`` if the worker was signalled."""


def explore(machine: Machine) -> Explored:
    """Visit every state. Raises Violation."""
    first = canonical(machine.first(), machine)
    known, waiting = {first}, deque([first])
    outcomes = set()
    while waiting:
        state = waiting.popleft()
        if machine.ended(state):
            outcomes.add("worker" if state.worker else machine.tree(state.status)["state"])
            continue
        for found in machine.next_states(state):
            found = canonical(found, machine)
            if found not in known:
                known.add(found)
                waiting.append(found)
    return Explored(len(known), frozenset(outcomes))


@pytest.mark.parametrize("on_not_ready", ["end", "wait"])
@pytest.mark.parametrize("controllers", [1, 2])
def test_no_state_breaks_the_quorum_whoever_is_down(controllers: int, on_not_ready: str) -> None:
    explored = explore(Machine(controllers, on_not_ready=on_not_ready))
    assert explored.outcomes == OUTCOMES[on_not_ready]


@pytest.mark.parametrize("on_not_ready", ["end", "wait"])
def test_no_state_of_three_breaks_the_quorum(on_not_ready: str) -> None:
    explored = explore(Machine(3, on_not_ready=on_not_ready, one_down=True))
    assert explored.outcomes == OUTCOMES[on_not_ready]


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("on_not_ready", ["end", "wait"])
@pytest.mark.parametrize("controllers", [4, 5, 6, 7])
def test_no_state_of_many_breaks_the_quorum(controllers: int, on_not_ready: str) -> None:
    explored = explore(Machine(controllers, on_not_ready=on_not_ready, one_down=True))
    assert explored.outcomes == OUTCOMES[on_not_ready]


@pytest.mark.parametrize("controllers", range(1, 8))
def test_whoever_is_down_nobody_begins(controllers: int) -> None:
    """Why one answer stands for all in which hosts are down: the same is decided on each."""
    machine = Machine(controllers)
    first = machine.first()
    tree = {**machine.tree(first.status), "questions": {"number": 9, "readiness": True}}
    asked = first._replace(status=msgspec.json.encode(tree))
    for ready in product((True, False), repeat=controllers):
        answered = machine._answered(asked, Answer(9, ready))
        writes = machine._decided(answered.status, first.hosts, False)
        assert [write.host for write in writes if not write.status] == ([0] if all(ready) else [])
        assert machine.ended(answered._replace(status=writes[0].status)) is not all(ready)


def _doctored(change: Callable[[Tree], object]) -> Decide:
    """The real controller, which is shown other objects than there are."""
    real = plans()

    def decide(plan: Object, world: Snapshot) -> list[Intent]:
        trees = {noun: [one.thawed() for one in world.all(noun)] for noun in world.nouns}
        for tree in (shown := plan.thawed(), *trees[ControlNode]):
            change(tree)
        views = {noun: StaticView(found) for noun, found in trees.items()}
        return real(Object.of(shown), Snapshot(views, now=world.now))

    return decide


def believes_everybody(tree: Tree) -> None:
    for answer in (tree["status"].get("answers") or {}).get("readiness", ()):
        answer["ready"] = True


def uses_answers_again(tree: Tree) -> None:
    if tree["kind"] == "Plan" and (answers := tree["status"].get("answers", {})).get("readiness"):
        tree["status"]["questions"] = {"number": answers["number"], "readiness": True}
        for target in tree["status"]["commands"][0]["k0supdate"]["controllers"]:
            target["state"] = target["state"].replace("SignalSent", "SignalCompleted")


def sees_no_signals(tree: Tree) -> None:
    if tree["kind"] == "ControlNode":
        tree["metadata"].pop("annotations", None)


def takes_controllers_for_updated(tree: Tree) -> None:
    if tree["kind"] == "ControlNode":
        tree["status"]["k0sVersion"] = NEW
    elif "commands" in tree["status"]:
        for target in tree["status"]["commands"][0]["k0supdate"]["controllers"]:
            target["state"] = "SignalCompleted"


@pytest.mark.parametrize(
    ("defect", "found"),
    [
        (believes_everybody, "not all were ready"),
        (uses_answers_again, "while the controllers are"),
        (sees_no_signals, "signalled twice"),
        (takes_controllers_for_updated, "the worker is signalled"),
    ],
)
def test_a_defect_is_found(defect: Callable[[Tree], object], found: str) -> None:
    with pytest.raises(Violation, match=found):
        explore(Machine(2, decide=_doctored(defect), on_not_ready="wait"))
