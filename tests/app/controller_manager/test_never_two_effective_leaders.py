"""Three managers with all controllers; in each round the leader is killed, and the next one stopped for longer than its lease,
while there is always work.

Whether a write counted is told by the server: the audit trail has every write of the managers with the term that it was made
under and the revision that it got, and a watch has the revision at which each term began. A write that was accepted under
a term that was over by then would show.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import signal
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from time import monotonic
from typing import Any

import pytest
from tests.kit.managers import started
from tests.kit.pilothouse_server import PilothouseServer
from tests.kit.processes import Process
from tests.kit.run_report import Tell
from tests.kit.waiting import eventually

from pilothouse.api.kind_names import ConfigMap, Lease, Namespace, ServiceAccount
from pilothouse.base.clock import SystemClock
from pilothouse.client.api import Api
from pilothouse.client.http_transport import HttpTransport
from pilothouse.client.informer import Informer
from pilothouse.client.kubeconfig import load
from pilothouse.client.object_cache import CacheChange

pytestmark = [pytest.mark.long, pytest.mark.timeout(3600)]

ROUNDS = 50 if os.environ.get("PILOTHOUSE_SOAK") else 3
LEASE, RENEW, RETRY = 2.0, 1.4, 0.5
LEASE_NAME = ("kube-system", "pilothouse-controller-manager")
WITHIN = LEASE + 2 * RETRY * 1.2
"""Seconds that a takeover may take: the lease and two retries, which are a fifth longer at most."""
FLAGS = (
    f"--leader-elect-lease-duration={LEASE}s",
    f"--leader-elect-renew-deadline={RENEW}s",
    f"--leader-elect-retry-period={RETRY}s",
)
POLICY = """
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- {level: RequestResponse, omitManagedFields: true, verbs: [create, update, patch, delete, deletecollection]}
- {level: None}
"""
AGENT = "pilothouse-controller-manager/"


@dataclass(frozen=True)
class Write:
    """A write of a manager that was accepted."""

    what: str
    term: int
    revision: int


@dataclass
class Chronicle:
    """What a server's watches told, in the order in which it happened."""

    terms: list[tuple[int, int]] = field(default_factory=list)
    """The revision of each change of the lease, and the term that it began or went on with."""
    began: dict[int, float] = field(default_factory=dict)
    """When each term was first heard of."""
    holder: str = ""
    accounts: int = 0
    """How many namespaces have got their account."""

    def lease(self, change: CacheChange) -> None:
        if change.new is not None and change.new.key == LEASE_NAME:
            term = change.new.spec.get("leaseTransitions", 0)
            self.terms.append((change.new.revision, term))
            self.began.setdefault(term, monotonic())
            self.holder = change.new.spec.get("holderIdentity") or ""

    def account(self, change: CacheChange) -> None:
        self.accounts += change.new is not None and change.old is None

    def out_of_term(self, writes: list[Write]) -> list[Write]:
        """Those that were accepted while another term lasted."""
        return [write for write in writes if write.term != self._at(write.revision)]

    def _at(self, revision: int) -> int:
        return next(term for moment, term in reversed(self.terms) if moment < revision)

    @property
    def term(self) -> int:
        return self.terms[-1][1] if self.terms else -1

    @property
    def leader(self) -> int:
        """The process that leads."""
        return int(self.holder.split("_")[1]) if self.holder else 0


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


@asynccontextmanager
async def following(api: Api, chronicle: Chronicle) -> AsyncIterator[None]:
    leases = Informer(api, Lease, Random(1), SystemClock(), namespace=LEASE_NAME[0])
    accounts = Informer(api, ServiceAccount, Random(2), SystemClock())
    leases.subscribe(chronicle.lease)
    accounts.subscribe(chronicle.account)
    tasks = [asyncio.create_task(each.run()) for each in (leases, accounts)]
    await asyncio.gather(leases.synced(), accounts.synced())
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def give_work(api: Api) -> None:
    """Several times a second another namespace, which needs an account and a certificate; old ones go with all they have."""
    for number in itertools.count():
        name = f"work-{number}"
        await api.create(Namespace, {"metadata": {"name": name}})
        await api.create(ConfigMap, {"metadata": {"name": "c", "namespace": name}})
        if number >= 10:
            await api.delete(Namespace, f"work-{number - 10}")
        await asyncio.sleep(0.2)


def accepted(trail: str) -> list[Write]:
    """What managers wrote, leases aside, by the audit trail. Each such write names its term."""
    found = []
    for record in map(json.loads, trail.splitlines()):
        if not record["userAgent"].startswith(AGENT) or record["objectRef"]["resource"] == "leases":
            continue
        fence = record.get("annotations", {}).get("pilothouse.io/fence")
        assert fence, f"a write without a fence: {record}"
        revision = _revision(record)
        if record["responseStatus"]["code"] < 300 and revision:
            what = f"{record['verb']} {record['requestURI']}"
            found.append(Write(what, int(fence.split("/")[2]), revision))
    return found


def _revision(record: dict[str, Any]) -> int:
    """0 for what is gone at once, of which the answer does not tell, and for collections: a list has the revision at which it was read."""
    if record["verb"] == "deletecollection":
        return 0
    return int(record.get("responseObject", {}).get("metadata", {}).get("resourceVersion") or 0)


def test_a_late_write_would_be_found() -> None:
    chronicle = Chronicle(terms=[(10, 0), (20, 1), (25, 1)])
    in_time = [Write("a", 0, 15), Write("b", 1, 21), Write("c", 1, 30)]
    assert chronicle.out_of_term(in_time) == []
    late = Write("b", 0, 21)
    assert chronicle.out_of_term([*in_time, late]) == [late]


@pytest.mark.parametrize("store", ["sqlite", "etcd"])
async def test_no_write_under_an_old_lease_is_accepted(
    store: str, tmp_path: Path, stack: ExitStack, tell: Tell
) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text(POLICY)
    flags = ("--audit-policy-file", str(policy), "--audit-log-maxsize", "10000")
    server = PilothouseServer(tmp_path / "server", store, flags=flags)
    stack.callback(server.close)
    config = server.target.kubeconfig.with_name("controller-manager.kubeconfig")
    names = itertools.count()
    managers: dict[int, Process] = {}

    async def another() -> None:
        process = await asyncio.to_thread(started, config, tmp_path / f"manager-{next(names)}", *FLAGS)
        stack.callback(process.kill)
        managers[process.pid] = process

    chronicle = Chronicle()
    takeovers: dict[str, list[float]] = {"killed": [], "stopped": []}

    async def at_work() -> None:
        done = chronicle.accounts

        async def more() -> bool:
            return chronicle.accounts > done + 5

        await eventually(more, seconds=60)

    async def strike(how: signal.Signals) -> int:
        """Have the leader struck, and wait until another leads and has done something."""
        pid, term, began = chronicle.leader, chronicle.term, monotonic()
        os.kill(pid, how)

        async def taken_over() -> bool:
            return chronicle.term > term and chronicle.leader != pid

        await eventually(taken_over)
        kind = "killed" if how is signal.SIGKILL else "stopped"
        takeovers[kind].append(chronicle.began[chronicle.term] - began)
        await at_work()
        return pid

    access = load(server.target.kubeconfig)
    async with HttpTransport.open(access, SystemClock(), agent="test") as transport:
        api = Api(transport, Random(1), manager="test")
        async with following(api, chronicle), asyncio.TaskGroup() as group:
            for _ in range(3):
                await another()
            working = group.create_task(give_work(api))
            await at_work()
            for _ in range(ROUNDS):
                killed = await strike(signal.SIGKILL)
                managers.pop(killed).kill()
                await another()
                # It wakes in the middle of whatever it did, when others have decided for a while.
                os.kill(await strike(signal.SIGSTOP), signal.SIGCONT)
                await at_work()
            working.cancel()
    writes = accepted(server.audit_log.read_text())
    assert chronicle.out_of_term(writes) == []
    assert len({write.term for write in writes}) > 2 * ROUNDS
    by_kind = Counter(write.what.split("?")[0].split("/")[-2] for write in writes)
    assert {"serviceaccounts", "configmaps"} <= {write.what.split("?")[0].split("/")[-1] for write in writes}
    assert by_kind["decisions"]
    slowest = {how: max(found) for how, found in takeovers.items()}
    assert max(slowest.values()) < WITHIN
    told = ", ".join(f"{seconds:.1f} s when {how}" for how, seconds in slowest.items())
    tell(f"{store}: {len(writes)} writes in {chronicle.term + 1} terms; slowest takeover {told}")
    for process in managers.values():
        assert process.end() == 0
