"""For every scenario: the manager crashes before, and after, each of the writes that it makes, and all comes out right.

Exhaustive in a soak: the run in which nothing else goes wrong tells how many writes there are, and each is struck in a run of its own. Leases
are left out, since a crash there is a crash between two writes, and each of those is struck anyway. Controllers that have
nothing to do in quiet times have runs in which a namespace goes, or a node is lost. A great cluster of Elasticsearch makes hundreds of writes, all of which a soak strikes;
elsewhere it is a small one, and of long runs every second or third write is struck.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from random import Random
from typing import NamedTuple

import msgspec
import pytest

from pilothouse.api.kind_names import ConfigMap, Namespace, Node, Pilot, Secret
from pilothouse.app.controller_list import all_controllers
from pilothouse.client.api import Api
from pilothouse.controllers.elasticsearch.desired.security import AUTHORITY, CERTIFICATE, content
from pilothouse.controllers.elasticsearch.secrets_controller import RandomSecrets, elasticsearch_secrets
from pilothouse.controllers.invariants import PROMISES
from pilothouse.controllers.orphaned_pods import stranded_pods
from pilothouse.controllers.pilots.pilot_collection import pilot_collector
from pilothouse.controllers.pilots.pilot_heartbeats import silent_pilots
from pilothouse.controllers.service_accounts import service_accounts
from pilothouse.sim.fault_schedule import Fault, FaultPoint, PlannedFault
from pilothouse.sim.fleet import Scenario, UserAction
from pilothouse.sim.scenarios import SCENARIOS
from pilothouse.sim.scenarios.elasticsearch_cluster import pools_of, story
from pilothouse.sim.scenarios.machine_drains import begin_with
from pilothouse.sim.scenarios.nodes import nodes_settled
from pilothouse.sim.scenarios.sets import set_users
from pilothouse.sim.scenarios.user_actions import SPACE
from pilothouse.sim.simulation import Report, simulate_with

SEED = 3
FAULTS = (Fault.CRASH_BEFORE, Fault.CRASH_AFTER)
_LEASES = "/leases"
EVERY = (
    {}
    if os.environ.get("PILOTHOUSE_SOAK")
    else {
        "drains": 5,
        "elastic": 20,
        "small cluster": 3,
        "budgets": 3,
        "nodes": 2,
        "sets": 2,
        "node goes": 2,
    }
)
"""By run, one write in how many is struck; in all others each is."""


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


async def secrets_belong_together(api: Api) -> str:
    """What nodes are to trust is what has signed their certificate, however often its maker was interrupted."""
    found = {each.name: each for each in (await api.list(Secret, SPACE)).objects}
    if missing := {"es-demo-authority", "es-demo-certificates", "es-demo-users"} - set(found):
        return f"{sorted(missing)} are missing"
    authority, certificates = found["es-demo-authority"], found["es-demo-certificates"]
    same = content(authority, CERTIFICATE) == content(certificates, AUTHORITY)
    return "" if same else "the certificate is another authority's"


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
    "security is asked for": Run(
        Scenario(
            "secrets",
            (elasticsearch_secrets(RandomSecrets()), service_accounts),
            story({**pools_of(), "security": {}}),
            secrets_belong_together,
            nodes=0,
        )
    ),
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


def writes(run: Run) -> list[int]:
    """The numbers of the writes that are no lease's, in a run in which nothing else goes wrong."""
    mine = [line.split() for line in run.simulate().written if line.split()[1].startswith("m0-")]
    return [number for number, (_, _, _, path, _) in enumerate(mine) if _LEASES not in path]


def crash_at(run: Run, number: int, fault: Fault) -> None:
    report = run.simulate(PlannedFault("m0", FaultPoint.WRITE, number, fault))
    assert fault in [each.fault for each in report.faults]


def test_every_controller_writes_in_some_run() -> None:
    paths = [line.split()[3] for run in RUNS.values() for line in run.simulate().written]
    recorded = {
        path.rpartition("/decisions/")[2].partition(".")[0] for path in paths if "/decisions/" in path
    }
    # It deletes requests that are an hour old, and no run takes that long.
    patient = {"certificate-request-cleaner"}
    assert {one.name for one in all_controllers("")} - patient <= recorded


@pytest.mark.parametrize("name", RUNS)
def test_some_writes_of_each_run(name: str) -> None:
    found = writes(RUNS[name])
    assert len(found) > 5
    for number in found[:: max(1, len(found) // 5)]:
        for fault in FAULTS:
            crash_at(RUNS[name], number, fault)


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
@pytest.mark.parametrize("name", RUNS)
def test_every_write_of_each_run(name: str, fault: Fault) -> None:
    for number in writes(RUNS[name])[:: EVERY.get(name, 1)]:
        crash_at(RUNS[name], number, fault)
