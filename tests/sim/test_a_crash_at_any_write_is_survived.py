"""For every scenario: the manager crashes before, and after, each of the writes that it makes, and all comes out right.

Exhaustive in a soak: the run in which nothing else goes wrong tells how many writes there are, and each is struck in a run of its own. Leases
are left out, since a crash there is a crash between two writes, and each of those is struck anyway. Controllers that have
nothing to do in quiet times have runs in which a namespace goes, or a node is lost. A great cluster of Elasticsearch makes hundreds of writes, all of which a soak strikes;
elsewhere it is a small one. There every second write is struck, before and after, so that there is a crash between any two writes; of long runs every fourth or sixth.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping, Sequence
from random import Random
from typing import NamedTuple

import msgspec
import pytest

from pilothouse.api.k0s.signals import read_signal
from pilothouse.api.kind_names import (
    ApplicationAction,
    ConfigMap,
    ControlNode,
    Namespace,
    Node,
    PersistentVolumeClaim,
    Pilot,
    Plan,
    Secret,
    StorageClass,
    UpdateConfig,
)
from pilothouse.app.controller_list import all_controllers
from pilothouse.base.rfc3339 import format_time
from pilothouse.client.api import Api
from pilothouse.controllers.application_actions import all_executors
from pilothouse.controllers.elasticsearch.desired.security import AUTHORITY, CERTIFICATE, content
from pilothouse.controllers.elasticsearch.secrets_controller import RandomSecrets, elasticsearch_secrets
from pilothouse.controllers.invariants import PROMISES
from pilothouse.controllers.orphaned_pods import stranded_pods
from pilothouse.controllers.pilots.pilot_collection import pilot_collector
from pilothouse.controllers.pilots.pilot_heartbeats import silent_pilots
from pilothouse.controllers.plans.plan_controller import plans
from pilothouse.controllers.service_accounts import service_accounts
from pilothouse.controllers.update_configs.update_config_controller import update_configs
from pilothouse.sim.fault_schedule import Fault, FaultPoint, PlannedFault
from pilothouse.sim.fleet import Scenario, UserAction
from pilothouse.sim.loop import LoopClock
from pilothouse.sim.scenarios import SCENARIOS
from pilothouse.sim.scenarios.cluster_actions import every_action_on_clusters, no_action_failed
from pilothouse.sim.scenarios.elasticsearch_cluster import pools_of, story
from pilothouse.sim.scenarios.machine_drains import begin_with
from pilothouse.sim.scenarios.nodes import nodes_settled
from pilothouse.sim.scenarios.rules import CLAIMS, claim_tree, model, rule_tree
from pilothouse.sim.scenarios.rules import begin_with as begin_with_rules
from pilothouse.sim.scenarios.sets import set_users
from pilothouse.sim.scenarios.user_actions import SPACE
from pilothouse.sim.scenarios.volume_moves import every_action_on_volumes
from pilothouse.sim.scenarios.workload_actions import every_action_on_workloads
from pilothouse.sim.simulated_server import SimulatedServer
from pilothouse.sim.simulation import Report, simulate_with

SEED = 3
FAULTS = (Fault.CRASH_BEFORE, Fault.CRASH_AFTER)
_LEASES = "/leases"
EVERY = (
    {}
    if os.environ.get("PILOTHOUSE_SOAK")
    else {
        "drains": 10,
        "elastic": 80,
        "clusters": 12,
        "moves": 8,
        "workloads": 8,
        "plans": 12,
        "rules": 24,
        "one rule": 1,
        "small cluster": 6,
        "budgets": 6,
        "nodes": 4,
        "sets": 4,
        "node goes": 4,
    }
)
"""By run, one write in how many is struck."""
EVERY_OTHER = 1 if os.environ.get("PILOTHOUSE_SOAK") else 2
"""In all other runs: after a write and before the next one, a crash leaves the same behind."""


_EXECUTORS = ("/applicationactions/", "/elasticsearchclusters/demo", "/pilots/es-demo-data-0")
STRUCK: Mapping[str, Sequence[str]] = {} if os.environ.get("PILOTHOUSE_SOAK") else {"clusters": _EXECUTORS}
"""By run: outside a soak only writes of these are struck; what else its controllers write is in other runs."""


class Run(NamedTuple):
    """What is run again and again: with one manager, so that nobody else does what it left undone."""

    scenario: Scenario
    besides: tuple[PlannedFault, ...] = ()
    """What goes wrong in any case."""

    def simulate(self, *faults: PlannedFault) -> Report:
        scenario = msgspec.structs.replace(self.scenario, managers=1)
        return simulate_with(scenario, *self.besides, *faults, seed=SEED)


def namespace_goes(rng: Random) -> Sequence[UserAction]:
    """A namespace comes, is filled, and goes when what was held is let go."""
    thing = {"metadata": {"name": "c", "namespace": "red", "finalizers": ["example.io/hold"]}}
    free = {"metadata": {"finalizers": None}}
    return [
        UserAction(15, "create red", lambda api: api.create(Namespace, {"metadata": {"name": "red"}})),
        UserAction(5, "create red/c", lambda api: api.create(ConfigMap, thing)),
        UserAction(5, "delete red", lambda api: api.delete(Namespace, "red")),
        UserAction(20, "let go of red/c", lambda api: api.patch(ConfigMap, "c", "red", free)),
    ]


def node_goes(rng: Random) -> Sequence[UserAction]:
    """A set is made on a node; long after it was unplugged somebody deletes it, and puts it back later."""
    given, _, made, *_ = set_users(rng)
    return [
        given,
        made,
        UserAction(480, "delete node n0", lambda api: api.delete(Node, "n0")),
        UserAction(60, "look at the nodes", lambda api: api.list(Node)),
    ]


def volume_grows_twice(rng: Random) -> Sequence[UserAction]:
    """A volume is filled, and a rule grows it in two steps, each of which has to be approved."""
    rule = rule_tree("grow", enforcement="approvalRequired")
    full = {f"data-{CLAIMS[0]}": "8"}
    return [
        *begin_with_rules(rule, claims=[claim_tree(CLAIMS[0])]),
        UserAction(1, "fill it, and approve", model(approvals="approved", **full)),
    ]


def machine_is_drained(rng: Random) -> Sequence[UserAction]:
    """A machine is drained below a cluster of two nodes."""
    return [*story(pools_of(1, 1))(rng), UserAction(40, "begin with n0", begin_with("n0"))]


def pilot_is_left(rng: Random) -> Sequence[UserAction]:
    """A Pilot without a pod: nobody hears of it, and in the end it goes."""
    tree = {
        "apiVersion": Pilot.api_version,
        "kind": "Pilot",
        "metadata": {"name": "p-0", "namespace": "default"},
    }
    return [
        UserAction(15, "create the Pilot p-0", lambda api: api.create(Pilot, tree)),
        UserAction(200, "look at the Pilots", lambda api: api.list(Pilot)),
    ]


async def no_pilots(api: Api) -> str:
    left = (await api.list(Pilot, "default")).objects
    return f"{left[0].name} is left" if left else ""


async def agent_of_worker(server: SimulatedServer, clock: LoopClock, rng: Random) -> None:
    """Now and then, the agent and the drain of the worker take its signal to the end."""
    api = server.api("agent")
    while True:
        await asyncio.sleep(5)
        node = await api.find(Node, "w0")
        signal = read_signal(node.annotations) if node is not None else None
        if signal is not None and not signal.ended:
            done = signal.advanced("Completed", signal.created)
            await api.patch(Node, "w0", "", {"metadata": {"annotations": done.annotations()}})


def plan_is_made(rng: Random) -> Sequence[UserAction]:
    """A plan updates a worker."""
    labels = {"kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"}
    worker = {"metadata": {"name": "w0", "labels": labels}}
    ready = {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}
    update = {
        "version": "v1.31.0",
        "forceupdate": True,
        "platforms": {"linux-amd64": {"url": "http://updates.example/k0s"}},
        "targets": {"workers": {"discovery": {"static": {"nodes": ["w0"]}}}},
    }
    plan = {
        "apiVersion": Plan.api_version,
        "kind": "Plan",
        "metadata": {"name": "autopilot"},
        "spec": {"commands": [{"k0supdate": update}]},
    }
    return [
        UserAction(15, "create node w0", lambda api: api.create(Node, worker)),
        UserAction(1, "w0 is ready", lambda api: api.patch(Node, "w0", "", ready, subresource="status")),
        UserAction(1, "create the plan", lambda api: api.create(Plan, plan)),
        UserAction(60, "look at the plan", lambda api: api.find(Plan, "autopilot")),
    ]


async def plan_is_complete(api: Api) -> str:
    plan = await api.find(Plan, "autopilot")
    state = plan.at("status", "state", default="") if plan is not None else "absent"
    return "" if state == "Completed" else f"the plan is {state or 'new'}"


async def channel(server: SimulatedServer, clock: LoopClock, rng: Random) -> None:
    """An update server: every check gets the same offer, after a while."""
    api = server.api("channel")
    while True:
        await asyncio.sleep(5)
        config = await api.find(UpdateConfig, "stable")
        if config is None or not (number := config.status.get("check")):
            continue
        if (config.status.get("answer") or {}).get("number") != number:
            download = {"platform": "linux-amd64", "k0s": {"url": "http://updates.example/k0s"}}
            time = format_time(clock.now())
            answer = {"number": number, "time": time, "version": "v1.31.0", "downloads": [download]}
            await api.patch(UpdateConfig, "stable", "", {"status": {"answer": answer}}, subresource="status")


def channel_is_followed(rng: Random) -> Sequence[UserAction]:
    """A channel offers something newer than what a machine runs."""
    machine = {"apiVersion": Plan.api_version, "kind": "ControlNode", "metadata": {"name": "c0"}}
    running = {"status": {"k0sVersion": "v1.30.0"}}
    strategy = {"type": "periodic", "periodic": {"startTime": "00:00", "length": "24h"}}
    config = {
        "apiVersion": Plan.api_version,
        "kind": "UpdateConfig",
        "metadata": {"name": "stable"},
        "spec": {"updateServer": "http://updates.example", "upgradeStrategy": strategy},
    }
    return [
        UserAction(15, "create c0", lambda api: api.create(ControlNode, machine)),
        UserAction(1, "c0 runs", lambda api: api.patch(ControlNode, "c0", "", running, subresource="status")),
        UserAction(1, "follow stable", lambda api: api.create(UpdateConfig, config)),
        UserAction(60, "look at the plan", lambda api: api.find(Plan, "autopilot")),
    ]


async def plan_is_offered(api: Api) -> str:
    plan = await api.find(Plan, "autopilot")
    if plan is None:
        return "there is no plan"
    version = plan.spec["commands"][0]["k0supdate"]["version"]
    return "" if version == "v1.31.0" else f"the plan is for {version}"


async def secrets_belong_together(api: Api) -> str:
    """What nodes are to trust is what has signed their certificate, however often its maker was interrupted."""
    found = {each.name: each for each in (await api.list(Secret, SPACE)).objects}
    if missing := {"es-demo-authority", "es-demo-certificates", "es-demo-users"} - set(found):
        return f"{sorted(missing)} are missing"
    authority, certificates = found["es-demo-authority"], found["es-demo-certificates"]
    same = content(authority, CERTIFICATE) == content(certificates, AUTHORITY)
    return "" if same else "the certificate is another authority's"


def actions_are_fired(rng: Random) -> Sequence[UserAction]:
    """Two actions on a claim: one grows it, the other is one that nothing carries out."""
    kind = {"metadata": {"name": "fast"}, "provisioner": "example.com/disks", "allowVolumeExpansion": True}
    claim = {
        "metadata": {"name": "data", "namespace": "default"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "fast",
            "resources": {"requests": {"storage": "320Mi"}},
        },
    }
    bound = {"status": {"phase": "Bound", "capacity": {"storage": "320Mi"}}}

    async def fire(api: Api, name: str, action: str) -> None:
        found = await api.get(PersistentVolumeClaim, "data", "default")
        reference = {"kind": "PersistentVolumeClaim", "name": "data", "uid": found.uid}
        tree = {
            "apiVersion": ApplicationAction.api_version,
            "kind": "ApplicationAction",
            "metadata": {"name": name, "namespace": "default"},
            "spec": {"rule": "r", "object": reference, "action": action, "target": {"to": "480Mi"}},
        }
        await api.create(ApplicationAction, tree)

    resize, snapshot = "openstorage.io.action.volume/resize", "example.com.action.volume/snapshot"
    return [
        UserAction(15, "create the class", lambda api: api.create(StorageClass, kind)),
        UserAction(1, "create the claim", lambda api: api.create(PersistentVolumeClaim, claim)),
        UserAction(
            1,
            "bind the claim",
            lambda api: api.patch(PersistentVolumeClaim, "data", "default", bound, subresource="status"),
        ),
        UserAction(5, "fire a resize", lambda api: fire(api, "a-resize", resize)),
        UserAction(5, "fire a snapshot", lambda api: fire(api, "a-snapshot", snapshot)),
        UserAction(620, "look at the actions", lambda api: api.list(ApplicationAction)),
    ]


async def disks(server: SimulatedServer, clock: LoopClock, rng: Random) -> None:
    """Volumes get the size that is requested, some time later."""
    api = server.api("disks")
    while True:
        await asyncio.sleep(20)
        claim = await api.find(PersistentVolumeClaim, "data", "default")
        if claim is None or claim.status.get("phase") != "Bound":
            continue
        requests = claim.at("spec", "resources", "requests")
        if requests != claim.at("status", "capacity"):
            grown = {"status": {"capacity": requests}}
            await api.patch(PersistentVolumeClaim, "data", "default", grown, subresource="status")


async def actions_have_ended(api: Api) -> str:
    claim = await api.find(PersistentVolumeClaim, "data", "default")
    sizes = (
        () if claim is None else (claim.at("spec", "resources", "requests"), claim.at("status", "capacity"))
    )
    if sizes != ({"storage": "480Mi"}, {"storage": "480Mi"}):
        return f"the claim has {sizes}"
    phases = {each.name: each.status.get("phase") for each in (await api.list(ApplicationAction)).objects}
    return "" if phases == {"a-resize": "Succeeded", "a-snapshot": "Failed"} else f"the actions are {phases}"


_NODES = SCENARIOS["nodes"]
RUNS = {
    **{name: Run(scenario) for name, scenario in SCENARIOS.items()},
    "small cluster": Run(
        msgspec.structs.replace(
            SCENARIOS["elastic"],
            users=story(pools_of(2, 1), (40, pools_of(1, 1))),
        )
    ),
    "drains": Run(msgspec.structs.replace(SCENARIOS["drains"], users=machine_is_drained)),
    "moves": Run(msgspec.structs.replace(SCENARIOS["moves"], users=every_action_on_volumes)),
    "workloads": Run(msgspec.structs.replace(SCENARIOS["workloads"], users=every_action_on_workloads)),
    "clusters": Run(
        msgspec.structs.replace(
            SCENARIOS["clusters"], users=every_action_on_clusters, settled=no_action_failed
        )
    ),
    "namespace goes": Run(msgspec.structs.replace(SCENARIOS["namespaces"], users=namespace_goes)),
    "pilot is left": Run(
        Scenario(
            "pilots",
            (pilot_collector(120.0), silent_pilots(), service_accounts),
            pilot_is_left,
            no_pilots,
            nodes=0,
        )
    ),
    "channel is followed": Run(
        Scenario(
            "update configs",
            (update_configs, service_accounts),
            channel_is_followed,
            plan_is_offered,
            nodes=0,
            companion=channel,
        )
    ),
    "plan is made": Run(
        Scenario(
            "plans",
            (plans(), service_accounts),
            plan_is_made,
            plan_is_complete,
            nodes=0,
            companion=agent_of_worker,
        )
    ),
    "actions are fired": Run(
        Scenario(
            "application actions",
            (*all_executors(), service_accounts),
            actions_are_fired,
            actions_have_ended,
            nodes=0,
            companion=disks,
        )
    ),
    "security is asked for": Run(
        Scenario(
            "secrets",
            (elasticsearch_secrets(RandomSecrets()), service_accounts),
            story({**pools_of(), "security": {}}),
            secrets_belong_together,
            nodes=0,
        )
    ),
    "one rule": Run(msgspec.structs.replace(SCENARIOS["rules"], users=volume_grows_twice)),
    "node goes": Run(
        msgspec.structs.replace(
            _NODES,
            users=node_goes,
            controllers=(*_NODES.controllers, stranded_pods),
            settled=nodes_settled,
            # Who deletes a node says that nothing runs there any more.
            invariants=PROMISES["garbage"],
        ),
        (PlannedFault("n0", FaultPoint.SECOND, 40, Fault.UNPLUG, 600.0),),
    ),
}


def writes(name: str) -> list[int]:
    """The numbers of the writes that are no lease's, in a run in which nothing else goes wrong."""
    mine = [line.split() for line in RUNS[name].simulate().written if line.split()[1].startswith("m0-")]
    parts = STRUCK.get(name, ("",))
    return [
        number
        for number, (_, _, _, path, _) in enumerate(mine)
        if _LEASES not in path and any(part in path for part in parts)
    ]


def crash_at(run: Run, number: int, fault: Fault) -> None:
    report = run.simulate(PlannedFault("m0", FaultPoint.WRITE, number, fault))
    assert fault in [each.fault for each in report.faults]


def test_every_controller_writes_in_some_run() -> None:
    written = [line.split() for run in RUNS.values() for line in run.simulate().written]
    paths = [path for _, _, _, path, _ in written]
    recorded = {
        path.rpartition("/decisions/")[2].partition(".")[0] for path in paths if "/decisions/" in path
    }
    # They delete requests that are an hour old, and actions of a week ago; no run takes that long.
    patient = {"certificate-request-cleaner", "action-history"}
    # It deletes what it decides about, which leaves no record.
    unrecorded = {"computed-classes"}
    deleted = [path for _, _, method, path, _ in written if method == "DELETE"]
    assert any("/volumeattributesclasses/" in path for path in deleted)
    # No scenario has their objects yet; tests of their own run them on the simulated server.
    elsewhere = {
        "rule-objects-cassandraclusters", "rule-objects-deployments", "rule-objects-elasticsearchclusters",
        "rule-objects-nodes", "rule-objects-pods", "rule-objects-statefulsets", "rule-objects-storagepools",
    }  # fmt: skip
    assert {one.name for one in all_controllers("")} - patient - unrecorded - elsewhere <= recorded


@pytest.mark.parametrize("name", RUNS)
def test_some_writes_of_each_run(name: str) -> None:
    found = writes(name)
    assert len(found) > 5
    for number in found[:: max(1, len(found) // 3)]:
        for fault in FAULTS:
            crash_at(RUNS[name], number, fault)


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
@pytest.mark.parametrize("name", RUNS)
def test_every_write_of_each_run(name: str, fault: Fault) -> None:
    for number in writes(name)[:: EVERY.get(name, EVERY_OTHER)]:
        crash_at(RUNS[name], number, fault)
