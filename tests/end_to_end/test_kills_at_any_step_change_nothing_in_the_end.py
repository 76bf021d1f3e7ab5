"""A cluster is scaled down and moved up a version, and at each step somebody who takes part in it is killed.

Six kills are made of one cluster, each at another step. With ``PILOTHOUSE_SOAK=1`` everybody is killed at every step: thirty kills. Whatever happens, the cluster becomes what was asked for, and
whatever was acknowledged is there.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.end_to_end.cluster_processes import VICTIMS, ClusterProcesses
from tests.kit.elasticsearch_on_up import ElasticsearchOnUp, ObservedNode, pool
from tests.kit.elasticsearch_traffic import Traffic

BEFORE, AFTER = "7.17.29", "8.17.0"
GOING, STAYING = "es-demo-data-3", "es-demo-data-2"
MIXED = ("leader", "apiserver", "controller-manager", "database", "controller-manager", "pilot")
"""One for each step, in their order."""
SERIES = [(victim,) * 6 for victim in VICTIMS] if os.environ.get("PILOTHOUSE_SOAK") else [MIXED]

Step = tuple[str, Callable[[ObservedNode], bool]]


def is_leaving(seen: ObservedNode) -> bool:
    """Nothing is left on the node that is to go, or it has gone."""
    return seen.nodes == 3 or seen.pilot(GOING).is_true("Decommissioned")


def is_moving(seen: ObservedNode) -> bool:
    """The first node is being restarted with the new version, or has been."""
    first = seen.pilot(STAYING)
    return not first.is_true("Ready") or first.status.get("version") == AFTER


SHRINKING: tuple[Step, ...] = (
    (GOING, lambda seen: seen.reason("Progressing") == "Draining"),
    (GOING, is_leaving),
    (STAYING, lambda seen: seen.nodes == 3),
)
UPGRADING: tuple[Step, ...] = (
    (STAYING, lambda seen: seen.reason("Progressing") == "RollingVersion"),
    (STAYING, is_moving),
    (STAYING, lambda seen: seen.pilot(STAYING).status.get("version") == AFTER),
)


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("victims", SERIES, ids=lambda victims: "-".join(dict.fromkeys(victims)))
async def test_what_is_asked_for_comes_about_and_nothing_is_lost(
    tmp_path: Path, victims: tuple[str, ...]
) -> None:
    async with ElasticsearchOnUp.open(tmp_path, versions=(BEFORE, AFTER)) as installation:
        demo = await installation.cluster("demo", pools=[pool("data", 4)], version=BEFORE)
        await demo.until(lambda seen: seen.is_done)
        processes = ClusterProcesses(installation, demo)
        async with Traffic.through(await demo.address(), "books") as traffic:
            await traffic.make_index(shards=3, replicas=1)
            await traffic.load(20_000)
            async with traffic.going_on():
                await demo.patch({"nodePools": [pool("data", 3)]})
                for victim, (near, reached) in zip(victims[:3], SHRINKING, strict=True):
                    await demo.until(reached)
                    print("killed", await processes.kill(victim, near=near))
                await demo.until(lambda seen: seen.is_done and seen.nodes == 3)

                await demo.patch({"version": AFTER})
                for victim, (near, reached) in zip(victims[3:], UPGRADING, strict=True):
                    await demo.until(reached)
                    print("killed", await processes.kill(victim, near=near))
                await demo.until(lambda seen: seen.is_done and seen.version == AFTER)
            print(traffic.story)
            assert await traffic.lost() == {}
