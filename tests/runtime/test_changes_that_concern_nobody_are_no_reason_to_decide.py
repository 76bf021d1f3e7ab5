"""A heartbeat is nothing to the garbage collector: it decides about a lease when it comes, and not at each renewal."""

from __future__ import annotations

from tests.runtime.conftest import Bench

from pilothouse.api.kind_names import Lease
from pilothouse.controllers.garbage_collector import garbage
from pilothouse.sim.heartbeats import renew


def test_a_heartbeat_is_not_decided_about(bench: Bench) -> None:
    async def scenario(bench: Bench) -> None:
        manager = bench.manage([garbage])
        await renew(bench.api, "n1", "kube-node-lease", "n1", bench.clock)
        await bench.settle()
        (engine,) = manager.engines
        before = engine.counters.decisions.total()
        for _ in range(5):
            await renew(bench.api, "n1", "kube-node-lease", "n1", bench.clock)
            await bench.settle()
        assert engine.counters.decisions.total() == before
        found = await bench.api.get(Lease, "n1", "kube-node-lease")
        await bench.api.patch(
            Lease, "n1", "kube-node-lease", {"metadata": {"finalizers": ["example.com/held"]}}
        )
        await bench.settle()
        assert engine.counters.decisions.total() == before + 1
        assert found.spec["holderIdentity"] == "n1"

    bench.run(scenario)
