"""Bugs put in on purpose, each one that somebody has shipped: what the simulator is worth is how soon it finds them.

    for bug in BUGS:
        bug.scenario              # to simulate

Each is an ordinary scenario with one thing changed: a controller that decides otherwise, a client that says less than ours, or
a part of the runtime that is taken out.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager
from importlib import import_module
from random import Random
from types import ModuleType
from typing import Any, NamedTuple

import msgspec
import pytest

from pilothouse.api.k0s.signals import Signal
from pilothouse.api.k0s.v1beta2 import PlanAnswers, PlanSpec, PlatformResource, ReadinessAnswer, TargetStatus
from pilothouse.api.kind_names import ControlNode, Node, Pilot
from pilothouse.api.navigator.labels import DECOMMISSIONED_FOR
from pilothouse.api.objects import Object
from pilothouse.api.openstorage.actions import MOVE
from pilothouse.api.openstorage.v1alpha1 import RuleAction
from pilothouse.apiserver.request_handler import RequestHandler
from pilothouse.base.clock import Clock
from pilothouse.base.rfc3339 import format_time
from pilothouse.client.fence import HEADER
from pilothouse.client.transport import ClientRequest, ClientResponse, ResponseStreamReader, Transport
from pilothouse.controllers.application_actions import move_steps, pool_actions
from pilothouse.controllers.application_actions.action_status import running
from pilothouse.controllers.application_actions.class_changes import ClassChange
from pilothouse.controllers.application_actions.move_steps import MoveDone, MoveStep, MoveWaits
from pilothouse.controllers.disruptions import DisruptionAccount
from pilothouse.controllers.drains import drain_controller
from pilothouse.controllers.elasticsearch.observed.cluster_nodes import ClusterNode
from pilothouse.controllers.elasticsearch.status import cluster_status
from pilothouse.controllers.elasticsearch.steps import broken_nodes, restart_gate, version_policy
from pilothouse.controllers.plans import controller_turns, plan_controller, questions, stages, worker_turns
from pilothouse.controllers.plans.stages import Stage
from pilothouse.controllers.plans.turn_signals import SignalScope
from pilothouse.controllers.plans.update_run import UpdateRun
from pilothouse.meta.versions import Version
from pilothouse.pilot.drivers.elasticsearch.rebalance import REBALANCE, rebalance_decision
from pilothouse.pilot.drivers.elasticsearch.redundancy import copies_decision
from pilothouse.rules import object_states, rule_controllers, ruled_objects
from pilothouse.rules.action_targets import ObjectLookup, TargetResult
from pilothouse.rules.object_records import RuleTerms
from pilothouse.rules.rule_case import RuleCase
from pilothouse.rules.targets import target_table
from pilothouse.runtime.controller import Controller
from pilothouse.runtime.expectations import Expectations
from pilothouse.runtime.intents import Delete, Intent, PatchObject, SetStatus, Update
from pilothouse.runtime.snapshot import Snapshot
from pilothouse.sim import simulated_pilots, simulated_server
from pilothouse.sim.fleet import Scenario, UserAction
from pilothouse.sim.scenarios import SCENARIOS, cluster_actions, volume_moves, workload_actions
from pilothouse.sim.scenarios.elasticsearch_cluster import pools_of, story
from pilothouse.sim.scenarios.fired_actions import fire_on_claim
from pilothouse.sim.scenarios.rules import begin_with, end_well, model, rule_tree
from pilothouse.sim.simulated_node import NodeTiming
from pilothouse.sim.tiered_volumes import TIERS


class Bug(NamedTuple):
    """One bug."""

    name: str
    shows: str
    """What its failure says: any other is a bug that nobody has put in."""
    scenario: Scenario
    spoil: Callable[[pytest.MonkeyPatch], None] = lambda _: None
    """Takes out a part of the runtime."""
    first_seed: int = 0
    """Where the search begins: seeds before it are known not to show the bug."""


def _deciding(scenario: str, controller: str, wrong: Callable[[Controller], Controller]) -> Scenario:
    """A scenario with one controller exchanged."""
    right = SCENARIOS[scenario]
    controllers = [wrong(one) if one.name == controller else one for one in right.controllers]
    return msgspec.structs.replace(right, controllers=controllers)


def _saying(scenario: str, change: Callable[[ClientRequest], ClientRequest]) -> Scenario:
    """A scenario whose managers' requests are changed on the way."""
    return msgspec.structs.replace(
        SCENARIOS[scenario], wrap_transport=lambda: lambda transport: _Changing(transport, change)
    )


class _Changing:
    def __init__(self, inner: Transport, change: Callable[[ClientRequest], ClientRequest]) -> None:
        self._inner = inner
        self._change = change

    async def request(self, call: ClientRequest) -> ClientResponse:
        return await self._inner.request(self._change(call))

    def stream(self, call: ClientRequest) -> AbstractAsyncContextManager[ResponseStreamReader]:
        return self._inner.stream(call)


def _without_fence(call: ClientRequest) -> ClientRequest:
    headers = {name: value for name, value in call.headers.items() if name.lower() != HEADER.lower()}
    return msgspec.structs.replace(call, headers=headers)


def _of_any_object(call: ClientRequest) -> ClientRequest:
    """A deletion that names nothing but a name."""
    if call.method != "DELETE" or not call.body:
        return call
    options = msgspec.json.decode(call.body)
    options.pop("preconditions", None)
    return msgspec.structs.replace(call, body=msgspec.json.encode(options))


def _expecting_nothing(patch: pytest.MonkeyPatch) -> None:
    """Whatever the caches show is good enough to decide."""
    patch.setattr(Expectations, "missing", lambda self, key, followed: frozenset())


def _intents(change: Callable[[Intent], Intent]) -> Callable[[Controller], Controller]:
    """A controller whose intents are changed."""

    def wrong(right: Controller) -> Controller:
        def decide(one: Object, world: Snapshot) -> Iterator[Intent]:
            yield from map(change, right.decide(one, world))

        return dataclasses.replace(right, decide=decide)

    return wrong


def _unasked(intent: Intent) -> Intent:
    """What a cache shows is taken for the truth."""
    if isinstance(intent, (Delete, Update, PatchObject)):
        return msgspec.structs.replace(intent, unless=())
    return intent


def _at_once(intent: Intent) -> Intent:
    """Nobody waits until the process has ended."""
    if isinstance(intent, Delete) and intent.seen.kind == "Pod":
        return msgspec.structs.replace(intent, grace=0)
    return intent


def _all_at_once(right: Controller) -> Controller:
    """The policy is not looked at."""

    def decide(one: Object, world: Snapshot) -> Iterator[Intent]:
        spec = {**one.spec, "podManagementPolicy": "Parallel"}
        yield from right.decide(Object.of({**one.tree, "spec": spec}), world)

    return dataclasses.replace(right, decide=decide)


def _remembering(right: Controller) -> Controller:
    """What was once told to be done is taken for done."""
    done: set[tuple[str, str]] = set()

    def decide(one: Object, world: Snapshot) -> Iterator[Intent]:
        for intent in right.decide(one, world):
            if (one.uid, intent.verb) not in done:
                done.add((one.uid, intent.verb))
                yield intent

    return dataclasses.replace(right, decide=decide)


def _restless(intent: Intent) -> Intent:
    """A status that never is what it was."""
    if isinstance(intent, SetStatus):
        generation = int(intent.seen.status.get("observedGeneration") or 0) + 1
        return msgspec.structs.replace(intent, status={**intent.status, "observedGeneration": generation})
    return intent


def _empty_or_not(patch: pytest.MonkeyPatch) -> None:
    """Who is asked to go is taken to be empty."""
    patch.setattr(
        ClusterNode, "is_decommissioned", property(lambda node: bool(node.pilot.spec.get("decommission")))
    )


def _whatever_the_health(patch: pytest.MonkeyPatch) -> None:
    """The next node is taken when its turn has come."""
    patch.setattr(restart_gate, "why_not_restart", lambda observed, node: None)


def _back_and_forth(patch: pytest.MonkeyPatch) -> None:
    """A version is a version."""
    patch.setattr(version_policy, "_highest_version", lambda node: Version.parse("0"))
    patch.setattr(broken_nodes, "_is_withdrawn", lambda observed, node: False)


def _by_health_alone(patch: pytest.MonkeyPatch) -> None:
    """A database whose shards are all there is available, whoever can reach it."""
    patch.setattr(cluster_status, "_why_unreachable", lambda observed: "")


async def _take_the_stores_word(core: RequestHandler, node: str, clock: Clock) -> None:
    """What was so before the power went is so."""


def _from_before(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(simulated_server, "withdraw_reports", _take_the_stores_word)


def _workers_first(patch: pytest.MonkeyPatch) -> None:
    """Workers are many, so they begin."""
    right = stages.stages_of_command

    def backwards(spec: PlanSpec, number: int) -> Iterator[Stage]:
        yield from reversed(list(right(spec, number)))

    patch.setattr(stages, "stages_of_command", backwards)
    patch.setattr(worker_turns, "_controllers_behind", lambda run, stage: [])


def _away(stage: Stage) -> tuple[TargetStatus, ...]:
    return tuple(each for each in stage.targets if each.state == stages.SENT and each.step != "Downloading")


def _unasked_answer(run: UpdateRun, **asked: object) -> PlanAnswers:
    machines = run.world.all(ControlNode)
    return PlanAnswers(
        number=0, readiness=tuple(ReadinessAnswer(name=each.name, ready=True) for each in machines)
    )


def _two_controllers(patch: pytest.MonkeyPatch) -> None:
    """A controller that is still downloading is not away."""
    right = controller_turns.controller_turn

    def wrong(run: UpdateRun, stage: Stage) -> None:
        with pytest.MonkeyPatch.context() as meanwhile:
            meanwhile.setattr(Stage, "in_progress", property(_away))
            meanwhile.setattr(controller_turns, "is_busy", lambda run, machine: False)
            meanwhile.setattr(questions, "answered", _unasked_answer)
            right(run, stage)

    patch.setattr(plan_controller, "controller_turn", wrong)


def _signalled_twice(patch: pytest.MonkeyPatch) -> None:
    """A signal without an answer is taken to be lost."""
    right = SignalScope.find

    def find(key: SignalScope, machine: Object) -> Signal | None:
        signal = right(key, machine)
        return signal if signal is not None and signal.step else None

    created = itertools.count()
    sent = SignalScope.new

    def new(key: SignalScope, when: str, payload: PlatformResource) -> Signal:
        return sent(key, format_time(next(created)), payload)

    patch.setattr(SignalScope, "find", find)
    patch.setattr(SignalScope, "new", new)


def _any_room(patch: pytest.MonkeyPatch) -> None:
    """``limits.concurrent`` alone limits how many begin."""
    patch.setattr(worker_turns, "room", lambda run, stage: None)


def _all_waves_at_once(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(worker_turns, "next_wave", lambda targets, waves: ("", targets))


def _everybodys_cordon(patch: pytest.MonkeyPatch) -> None:
    """Whatever is cordoned when the turn is over was cordoned for it."""
    right = drain_controller._complete

    def complete(turn: Any, world: Snapshot) -> Iterator[Intent]:
        for intent in right(turn, world):
            if isinstance(intent, PatchObject) and intent.seen.noun == Node:
                intent = msgspec.structs.replace(
                    intent, fields={**intent.fields, "spec": {"unschedulable": None}}
                )
            yield intent

    patch.setattr(drain_controller, "_complete", complete)


def _by_the_cache_alone(patch: pytest.MonkeyPatch) -> None:
    """What the budgets in the cache allow is deleted instead of evicted: nothing is spent."""
    right = DisruptionAccount.evict

    def delete(account: DisruptionAccount, pod: Object, **how: Any) -> Delete:
        right(account, pod, **how)
        return Delete(pod, grace=how["grace"], because=how["because"])

    patch.setattr(DisruptionAccount, "evict", delete)


def _any_approval(patch: pytest.MonkeyPatch) -> None:
    """An approval of the name is enough, whoever asked for what."""
    patch.setattr(RuleCase, "approval_fits", property(lambda self: self.situation.approval is not None))


def _no_budget(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ruled_objects, "spent", lambda *_: "")


def _at_one_go(patch: pytest.MonkeyPatch) -> None:
    """An action is created in the step that triggers it, before its number is on record."""
    patch.setattr(object_states, "STARTING", frozenset())


def _side_by_side(patch: pytest.MonkeyPatch) -> None:
    """Rules do not look at each other, nor at the actions that are under way."""
    patch.setattr(RuleCase, "busy", property(lambda self: False))
    patch.setattr(ruled_objects.RuledObject, "_blocked", lambda self, *others: "")


def _never_recommending(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(RuleTerms, "recommends", property(lambda self: False))


def _unclamped(patch: pytest.MonkeyPatch) -> None:
    """A step goes as far as the percentage says."""
    right = target_table.target_of

    def wrong(action: RuleAction, claim: Object, world: ObjectLookup) -> TargetResult:
        params = {name: value for name, value in action.params.items() if name != "maxsize"}
        return right(RuleAction(name=action.name, params=params), claim, world)

    patch.setattr(ruled_objects, "target_of", wrong)


def _verifying_again(patch: pytest.MonkeyPatch) -> None:
    """What later values say counts too."""
    patch.setattr(
        rule_controllers,
        "needs_verification",
        lambda action: bool(action.spec.get("ruleUid")) and action.status.get("phase") == "Succeeded",
    )


def _approving(rng: Random) -> Sequence[UserAction]:
    """A volume that has to grow several times, each with an approval."""
    doing = begin_with(rule_tree("grow", enforcement="approvalRequired"))
    doing.append(UserAction(1, "fill c0", model(**{"data-c0": "14", "approvals": "approved"})))
    return [*doing, UserAction(rng.uniform(300, 500), "wait", model()), *end_well()]


def _executor(name: str) -> ModuleType:
    """The module of an executor; in its package the name is that of the controller."""
    return import_module(f"pilothouse.controllers.application_actions.{name}")


def _pools_side_by_side(patch: pytest.MonkeyPatch) -> None:
    """An action on a pool does not look at the other pools."""
    patch.setattr(pool_actions, "_other", lambda action, world: None)


def _evicting_early(patch: pytest.MonkeyPatch) -> None:
    """The pod is restarted as soon as its volume is to be moved."""
    right = move_steps.move_step

    def wrong(
        change: ClassChange, tier: str, since: float, because: str, world: Snapshot, unused_since: str
    ) -> MoveStep:
        step = right(change, tier, since, because, world, unused_since)
        if isinstance(step, MoveWaits) and not step.intents:
            return move_steps._restarted(change.claim, step.message, step.left, because, world)
        return step

    patch.setattr(_executor("volume_move"), "move_step", wrong)
    patch.setattr(pool_actions, "move_step", wrong)


def _done_at_the_switch(patch: pytest.MonkeyPatch) -> None:
    """A move is done as soon as the volume has the class, whether or not its pod becomes ready on it."""
    right = move_steps.move_step

    def wrong(
        change: ClassChange, tier: str, since: float, because: str, world: Snapshot, unused_since: str
    ) -> MoveStep:
        if change.is_reached:
            return MoveDone("it has the class")
        return right(change, tier, since, because, world, unused_since)

    patch.setattr(_executor("volume_move"), "move_step", wrong)


def _asking_again(patch: pytest.MonkeyPatch) -> None:
    """A claim that does not ask for the class has not been asked yet."""
    patch.setattr(_executor("volume_move"), "reason_of", lambda action: "Requesting")


def _overruling(patch: pytest.MonkeyPatch) -> None:
    """Whatever class a claim asks for by then."""
    patch.setattr(ClassChange, "overruled", lambda change, found: "")


def _collecting_what_is_used(patch: pytest.MonkeyPatch) -> None:
    """A class that no action names is taken to be free."""
    module = _executor("computed_classes")
    patch.setattr(module, "KEPT_SECONDS", 20.0)
    patch.setattr(module, "_is_named", lambda name, world: False)


def _done_when_asked_for(patch: pytest.MonkeyPatch) -> None:
    """What a claim asks for is taken for what its volume has."""
    patch.setattr(ClassChange, "is_reached", property(lambda change: change.is_requested))


def _moving_and_changing(rng: Random) -> Sequence[UserAction]:
    """A claim whose volume is to be moved, and for which somebody else asks for another class meanwhile."""
    doing = [*volume_moves.begin()]
    for number in range(8):
        tier, other = rng.choice(TIERS), rng.choice(("silver", "gold"))
        fired = fire_on_claim(f"a-{number}", "data-db-0", MOVE, tier=tier)
        doing.append(UserAction(rng.uniform(20, 40), f"move data-db-0 to {tier}", fired))
        doing.append(UserAction(rng.uniform(0, 6), f"ask for {other}", volume_moves.ask("data-db-0", other)))
    return [*doing, *volume_moves.end_well()]


def _not_drained(patch: pytest.MonkeyPatch) -> None:
    """A set shrinks at once, whatever its last pod holds."""

    def wrong(action: Object, workload: Object, replicas: int, world: Snapshot) -> Iterator[Intent]:
        less = replicas - 1
        yield PatchObject(workload, {"spec": {"replicas": less}}, exact=True, because="it is too large")
        yield running(action, "Draining", "it shrinks", now=world.now, after={"value": str(less)})

    patch.setattr(_executor("workload_scale"), "_drain", wrong)


def _all_drained(patch: pytest.MonkeyPatch) -> None:
    """All pods that are to go are drained together."""
    module = _executor("workload_scale")
    right = module._drain

    def wrong(action: Object, workload: Object, replicas: int, world: Snapshot) -> Iterator[Intent]:
        for ordinal in range(int(action.spec["target"]["to"]), replicas - 1):
            pilot = world.find(Pilot, workload.namespace, f"{workload.name}-{ordinal}")
            if pilot is not None and not pilot.spec.get("decommission"):
                metadata = {"annotations": {DECOMMISSIONED_FOR: "rule"}}
                fields = {"metadata": metadata, "spec": {"decommission": True}}
                yield PatchObject(pilot, fields, because="it goes too")
        yield from right(action, workload, replicas, world)

    patch.setattr(module, "_drain", wrong)


def _scaling_by_two(rng: Random) -> Sequence[UserAction]:
    """A set of three is scaled by rules, up and down."""
    doing = workload_actions.begin()
    for number, to in enumerate((5, 3, 4, 1, 3)):
        fired = workload_actions.fire_scale(f"a-{number}", lambda _, to=to: to)  # type: ignore[misc]
        doing.append(UserAction(rng.uniform(30, 60), f"scale to {to}", fired))
    return [*doing, *workload_actions.end_well()]


def _fewer_copies_at_once(patch: pytest.MonkeyPatch) -> None:
    """Copies are removed whatever the health."""

    def wrong(asked: Any, indices: Any, nodes: Any, health: str, *, settled: bool) -> Any:
        return copies_decision(asked, indices, nodes, "Green", settled=settled)

    patch.setattr(simulated_pilots, "copies_decision", wrong)


def _not_put_back(patch: pytest.MonkeyPatch) -> None:
    """Rebalancing, once allowed, stays so."""

    def wrong(*what: Any, **how: Any) -> Any:
        decision = rebalance_decision(*what, **how)
        kept = {name: to for name, to in decision.settings.items() if name != REBALANCE or to == "all"}
        return msgspec.structs.replace(decision, settings=kept)

    patch.setattr(simulated_pilots, "rebalance_decision", wrong)


def _copying(rng: Random) -> Sequence[UserAction]:
    """Rules ask for more copies and, while they are built, for fewer."""
    doing = [*cluster_actions.begin(rng)]
    doing.append(
        UserAction(90, "scale up", cluster_actions.fire_scale("a-up", "data", lambda replicas: replicas + 1))
    )
    for number in range(4):
        more, fewer = cluster_actions.ask_for_copies(2), cluster_actions.ask_for_copies(rng.choice((0, 1)))
        doing.append(UserAction(rng.uniform(20, 40), f"two copies, {number}", more))
        doing.append(UserAction(rng.uniform(1, 4), f"fewer copies, {number}", fewer))
    return [*doing, *cluster_actions.end_well()]


_SCALING = msgspec.structs.replace(SCENARIOS["workloads"], users=_scaling_by_two)
_MOVING = msgspec.structs.replace(SCENARIOS["moves"], users=_moving_and_changing)

BUGS = (
    Bug("pools are changed side by side", "change pools at once", SCENARIOS["moves"], _pools_side_by_side),
    Bug(
        "a pod is evicted while its volume is copied",
        "its node does not wait for that",
        SCENARIOS["moves"],
        _evicting_early,
    ),
    Bug("a class that somebody took back is asked for again", "asks again", _MOVING, _asking_again),
    Bug("a class that somebody asked for is overruled", "; it found", _MOVING, _overruling),
    Bug(
        "a computed class is collected while claims use it",
        "is deleted, and claim",
        SCENARIOS["moves"],
        _collecting_what_is_used,
    ),
    Bug("a move is done before its pod is ready", "never was there", SCENARIOS["moves"], _done_at_the_switch),
    Bug("a move is over when it is asked for", "never was there", SCENARIOS["moves"], _done_when_asked_for),
    Bug(
        "copies are given up while others are built",
        "are kept, while the health is",
        msgspec.structs.replace(SCENARIOS["clusters"], users=_copying),
        _fewer_copies_at_once,
    ),
    Bug(
        "rebalancing stays allowed",
        "rebalancing is not as it was",
        msgspec.structs.replace(SCENARIOS["clusters"], users=cluster_actions.every_action_on_clusters),
        _not_put_back,
    ),
    Bug("a set shrinks before its pod is drained", "held the last copy", _SCALING, _not_drained),
    Bug("all pods that go are drained at once", "are drained at once", _SCALING, _all_drained),
    Bug(
        "an approval of something else counts",
        "what was approved",
        msgspec.structs.replace(SCENARIOS["rules"], users=_approving),
        _any_approval,
    ),
    Bug("a rule spends more than its budget", "is created, although", SCENARIOS["rules"], _no_budget),
    Bug("an action comes before its record", "is not on record", SCENARIOS["rules"], _at_one_go),
    Bug(
        "two rules act on a volume at once", "are under way on one object", SCENARIOS["rules"], _side_by_side
    ),
    Bug("a rule that recommends acts", "only recommends", SCENARIOS["rules"], _never_recommending),
    Bug("a volume is grown past maxsize", "and maxsize is", SCENARIOS["rules"], _unclamped),
    Bug("an action is verified again and again", "is verified twice", SCENARIOS["rules"], _verifying_again),
    Bug(
        "workers are updated before controllers",
        "workers follow all controllers",
        SCENARIOS["plans"],
        _workers_first,
    ),
    Bug(
        "the next controller does not wait for the one before",
        "controllers are updated one by one",
        SCENARIOS["plans"],
        _two_controllers,
    ),
    Bug(
        "a machine that has not answered is signalled again",
        "a turn is signalled once",
        SCENARIOS["plans"],
        _signalled_twice,
    ),
    Bug(
        "workers become unavailable beyond the limit",
        "and maxUnavailable is",
        SCENARIOS["plans"],
        _any_room,
    ),
    Bug(
        "a wave begins before the last one is done",
        "of an earlier wave",
        SCENARIOS["plans"],
        _all_waves_at_once,
    ),
    Bug(
        "a cordon of somebody else is ended",
        "a cordon of somebody else stays",
        SCENARIOS["plans"],
        _everybodys_cordon,
    ),
    Bug(
        "a drain takes pods down without spending from their budget",
        "are down at once",
        SCENARIOS["drains"],
        _by_the_cache_alone,
    ),
    Bug(
        "a cluster is available whether or not anybody can reach it",
        "a cluster without a ready pod is not available",
        msgspec.structs.replace(
            SCENARIOS["elastic"],
            users=story(pools_of(1, 1), (200, {"config": {"search.max_buckets": 1000}})),
            timing=NodeTiming(starting=(15.0, 30.0)),
        ),
        _by_health_alone,
    ),
    Bug(
        "a start takes the store's word",
        "a cluster without a ready pod is not available",
        SCENARIOS["elastic"],
        _from_before,
    ),
    Bug(
        "nodes are taken away before they are empty",
        "the last good copy",
        SCENARIOS["elastic"],
        _empty_or_not,
        first_seed=20,
    ),
    Bug("nobody waits for the node before", "are down at once", SCENARIOS["elastic"], _whatever_the_health),
    Bug(
        "versions go back",
        "its folder was written by",
        msgspec.structs.replace(
            SCENARIOS["elastic"],
            users=story(pools_of(2), (60, {"version": "7.17.29"}), (20, {"version": "7.17.9"})),
        ),
        _back_and_forth,
    ),
    Bug(
        "an old leader's writes are not fenced off",
        "only who leads writes",
        _saying("sets", _without_fence),
        first_seed=200,
    ),
    Bug(
        "pods are taken away before they have ended",
        "a pod that runs is ended by its node",
        _deciding("sets", "stateful-sets", _intents(_at_once)),
    ),
    Bug(
        "an ordered set makes its pods in any order",
        "never was ready",
        _deciding("sets", "stateful-sets", _all_at_once),
    ),
    Bug(
        "a lost write is taken for done",
        "has no default service account",
        _deciding("namespaces", "service-accounts", _remembering),
    ),
    Bug(
        "garbage is collected by the cache alone",
        "what has a living owner stays",
        _deciding("owners", "garbage", _intents(_unasked)),
    ),
    Bug(
        "a budget says something new each time",
        "and no end",
        _deciding("budgets", "disruption-budgets", _intents(_restless)),
    ),
    Bug(
        "a decision does not wait for what the last one wrote",
        "no node has more than it can take",
        SCENARIOS["places"],
        _expecting_nothing,
    ),
    Bug(
        "a deletion does not say of which object",
        "what has a living owner stays",
        _saying("owners", _of_any_object),
        first_seed=60,
    ),
)
