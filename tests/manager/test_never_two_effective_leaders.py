"""Three managers; the leader is killed, or stopped for longer than its lease, over and over, while there is always work.

Whether a write counted is told by the server: the audit trail has the term that each accepted write was made under, and a
watch has the order of writes and of terms. A write under a term that was over by then would show.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from time import monotonic

import pytest
from tests.kit.managers import shown, started
from tests.kit.ours import PilothouseServer
from tests.kit.processes import Process
from tests.kit.telling import Tell
from tests.kit.waiting import eventually

from pilothouse.api.nouns import Lease, Namespace, ServiceAccount
from pilothouse.base.clock import SystemClock
from pilothouse.client.cache import Difference
from pilothouse.client.http import HttpTransport
from pilothouse.client.informer import Informer
from pilothouse.client.kubeconfig import load
from pilothouse.client.rest import Api

pytestmark = pytest.mark.long

ROUNDS = 50 if os.environ.get("PILOTHOUSE_SOAK") else 5
LEASE, RENEW, RETRY = 2.0, 1.4, 0.4
LEASE_NAME = ("kube-system", "pilothouse-controller-manager")
NOISE = 4.0
"""Seconds that a busy machine may add to a takeover."""
FLAGS = (
    f"--leader-elect-lease-duration={LEASE}s",
    f"--leader-elect-renew-deadline={RENEW}s",
    f"--leader-elect-retry-period={RETRY}s",
    "--controllers=service-accounts",
)


@dataclass
class Chronicle:
    """What a server's watches told, in the order in which it happened."""

    terms: list[tuple[int, int]] = field(default_factory=list)
    """The revision of each change of the lease, and the term that it began or went on with."""
    accounts: dict[str, int] = field(default_factory=dict)
    """The revision at which each namespace got its account."""

    def lease(self, change: Difference) -> None:
        if change.new is not None and change.new.key == LEASE_NAME:
            self.terms.append((change.new.revision, change.new.spec.get("leaseTransitions", 0)))

    def account(self, change: Difference) -> None:
        if change.new is not None and change.old is None:
            self.accounts[change.new.namespace] = change.new.revision

    def term_at(self, revision: int) -> int:
        """The term that lasted when something was written."""
        return next(term for moment, term in reversed(self.terms) if moment < revision)

    def out_of_term(self, made: dict[str, int]) -> dict[str, tuple[int, int]]:
        """Accounts that were made under another term than the one that lasted: under which, and which lasted."""
        lasted = {name: self.term_at(revision) for name, revision in self.accounts.items() if name in made}
        return {name: (made[name], term) for name, term in lasted.items() if made[name] != term}

    @property
    def term(self) -> int:
        return self.terms[-1][1] if self.terms else -1


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
    """Another namespace, which needs an account, several times a second."""
    for number in itertools.count():
        await api.create(Namespace, {"metadata": {"name": f"work-{number}"}})
        await asyncio.sleep(0.1)


async def leads(process: Process) -> bool:
    if process.popen.poll() is not None:
        return False
    return "stands by" not in (await asyncio.to_thread(shown, process, "/readyz"))[1]


def accepted(server: PilothouseServer) -> dict[str, int]:
    """The term under which each namespace's account was made, by the audit trail."""
    found = {}
    for line in server.audit_log.read_text().splitlines():
        record = json.loads(line)
        reference = record.get("objectRef", {})
        fence = record.get("annotations", {}).get("pilothouse.io/fence")
        made = record["verb"] == "create" and reference.get("resource") == "serviceaccounts"
        if made and fence and record["responseStatus"]["code"] == 201:
            found[reference["namespace"]] = int(fence.rpartition("/")[2])
    return found


def test_a_late_write_would_be_found() -> None:
    chronicle = Chronicle(terms=[(10, 0), (20, 1), (25, 1)], accounts={"a": 15, "b": 21, "c": 30})
    assert chronicle.out_of_term({"a": 0, "b": 1, "c": 1}) == {}
    assert chronicle.out_of_term({"a": 0, "b": 0, "c": 1}) == {"b": (0, 1)}


@pytest.mark.parametrize("store", ["sqlite", "etcd"])
async def test_no_write_under_an_old_lease_is_accepted(
    store: str, tmp_path: Path, stack: ExitStack, tell: Tell
) -> None:
    server = PilothouseServer(tmp_path / "server", store)
    stack.callback(server.close)
    config = server.target.kubeconfig.with_name("controller-manager.kubeconfig")
    names = itertools.count()

    async def another() -> Process:
        process = await asyncio.to_thread(started, config, tmp_path / f"manager-{next(names)}", *FLAGS)
        stack.callback(process.kill)
        return process

    chronicle = Chronicle()
    takeovers: list[float] = []
    access = load(server.target.kubeconfig)
    async with HttpTransport.open(access, SystemClock(), agent="test") as transport:
        api = Api(transport, Random(1), manager="test")
        async with following(api, chronicle), asyncio.TaskGroup() as group:
            managers = [await another() for _ in range(3)]
            working = group.create_task(give_work(api))

            async def leader() -> Process | None:
                for each in managers:
                    if await leads(each):
                        return each
                return None

            for turn in range(ROUNDS):
                one = await eventually(leader)
                before = chronicle.term
                kills = turn % 2 == 0
                os.kill(one.pid, signal.SIGKILL if kills else signal.SIGSTOP)
                began = monotonic()

                async def taken_over(before: int = before) -> bool:
                    return chronicle.term > before

                await eventually(taken_over)
                takeovers.append(monotonic() - began)
                if kills:
                    one.kill()
                    managers[managers.index(one)] = await another()
                else:
                    # Others decide by now; the one that was stopped wakes in the middle of whatever it did.
                    done = len(chronicle.accounts)

                    async def at_work(done: int = done) -> bool:
                        return len(chronicle.accounts) > done + 5

                    await eventually(at_work)
                    os.kill(one.pid, signal.SIGCONT)
            last = len(chronicle.accounts)

            async def still_at_work() -> bool:
                return len(chronicle.accounts) > last + 5

            await eventually(still_at_work)
            working.cancel()
    made = accepted(server)
    assert chronicle.out_of_term(made) == {}
    assert len(set(made.values())) > ROUNDS
    assert len(made) > 10 * ROUNDS
    assert max(takeovers) < LEASE + 2 * RETRY * 1.2 + NOISE
    slowest = max(takeovers)
    tell(f"{store}: {len(made)} writes in {len(set(made.values()))} terms, slowest takeover {slowest:.1f} s")
    for process in managers:
        assert process.end() == 0
