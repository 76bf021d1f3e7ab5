"""Lives of pods drawn at random: crashes, probes that come and go, deletions of every kind, agents killed and servers down. In virtual time.

However it goes, no container has two instances at once, init containers are done before main ones begin, everything is gone in the end,
and every pod that is not deleted is as its manifest says once things are calm.
"""

from __future__ import annotations

import asyncio
import os
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import pytest
from tests.kit.fake_machine import FakeProgram
from tests.node.stage import Stage, app, is_ready, phase

from pilothouse.api.kind_names import Pod
from pilothouse.sim.loop import SeededLoop

QUICK = 15
TELLING = (85,)
"""Seeds that have found something: two changes of a pod that came before its keeper had begun made for two keepers."""
MANY = 2000 if os.environ.get("PILOTHOUSE_SOAK") else 60
CHECK = {"exec": {"command": ["check"]}, "periodSeconds": 2}


def drawn_pod(rng: Random) -> dict[str, Any]:
    """A manifest."""
    inits = [app(f"init-{number}") for number in range(rng.randrange(3))]
    if rng.random() < 0.5:
        inits.insert(rng.randrange(len(inits) + 1), app("side", restartPolicy="Always"))
    mains = []
    for number in range(rng.randrange(1, 3)):
        more: dict[str, Any] = {}
        if rng.random() < 0.5:
            more["readinessProbe"] = CHECK
        if rng.random() < 0.4:
            more["livenessProbe"] = {**CHECK, "periodSeconds": 3}
        if rng.random() < 0.3:
            more["startupProbe"] = {**CHECK, "periodSeconds": 1}
        if rng.random() < 0.3:
            more["lifecycle"] = {"preStop": {"sleep": {"seconds": rng.randrange(1, 8)}}}
        mains.append(app(f"main-{number}", **more))
    spec = {"initContainers": inits, "containers": mains} if inits else {"containers": mains}
    return {**spec, "terminationGracePeriodSeconds": rng.choice([0, 1, 5, 30])}


def drawn_play(rng: Random, name: str) -> FakeProgram:
    """How an instance behaves."""
    starts = rng.choice([0.0, 0.1, 2.0])
    if name.startswith("init"):
        return FakeProgram(runs=rng.uniform(0, 3), code=rng.choice([0, 0, 0, 1]), starts_in=starts)
    runs = rng.choice([None, None, rng.uniform(0, 30)])
    stops = rng.choice([0.0, 0.5, 4.0, None])
    return FakeProgram(runs=runs, code=rng.choice([0, 1]), stops_in=stops, starts_in=starts)


async def trouble(stage: Stage, rng: Random, names: list[str]) -> None:
    """Things happen, for two minutes or so."""
    for _ in range(rng.randrange(4, 12)):
        await asyncio.sleep(rng.uniform(0, 15))
        match rng.randrange(6):
            case 0 | 1:
                await stage.restart_agent()
            case 2:
                await stage.server.stop()
                await asyncio.sleep(rng.uniform(0, 20))
                await stage.server.start()
            case 3:
                for one in rng.sample(stage.machine.running, min(1, len(stage.machine.running))):
                    one.end(137, 9)
            case 4:
                name = rng.choice(names)
                grace = rng.choice([None, None, 0, 3])
                if await stage.find(name) is not None:
                    await stage.delete(name, grace)
            case 5:
                name = rng.choice(names)
                if await stage.find(name) is None:
                    await stage.pod(drawn_pod(rng), name)


def assert_never_two(stage: Stage) -> None:
    of_container: dict[Path, list[Any]] = {}
    for each in stage.machine.launches:
        of_container.setdefault(each.folder.parent, []).append(each)
    for folder, instances in of_container.items():
        for earlier, later in pairwise(instances):
            assert earlier.ended is not None, f"two instances of {folder}"
            assert earlier.ended.finished <= later.started


def assert_in_order(stage: Stage) -> None:
    """No main container begins while an init container of its pod has not succeeded."""
    for each in stage.machine.launches:
        if each.name.startswith("main"):
            inits = {
                other.name: other
                for other in stage.machine.launches
                if other.folder.parents[2] == each.folder.parents[2]
                and other.name.startswith("init")
                and other.started <= each.started
            }
            for init in inits.values():
                assert init.ended is not None
                assert init.ended.finished <= each.started
                assert init.ended.code == 0


@pytest.mark.parametrize("seed", [*range(QUICK), *TELLING])
def test_lives_drawn_at_random(seed: int, tmp_path: Path) -> None:
    live(seed, tmp_path)


@pytest.mark.long
def test_many_lives_drawn_at_random(tmp_path: Path) -> None:
    for seed in range(QUICK, QUICK + MANY):
        live(seed, tmp_path / str(seed))


def live(seed: int, folder: Path) -> None:
    rng = Random(seed)

    async def scene() -> None:
        flaky, calm = Random(f"flaky {seed}"), asyncio.Event()
        machine = stage.machine
        machine.draw = lambda name: (
            FakeProgram(runs=0.5)
            if name.startswith("init") and calm.is_set()
            else (FakeProgram(stops_in=1.0) if calm.is_set() else drawn_play(flaky, name))
        )
        machine.otherwise = lambda: 0 if calm.is_set() or flaky.random() < 0.8 else 1
        names = [f"pod-{number}" for number in range(3)]
        for name in names:
            await stage.pod(drawn_pod(rng), name)
        await trouble(stage, rng, names)
        calm.set()
        for name in names:
            if await stage.find(name) is not None and not (await stage.get(name)).deleting:
                await stage.until(is_ready, name, seconds=900)
        for name in names:
            if await stage.find(name) is not None:
                await stage.delete(name)
        for name in names:
            await stage.until_gone(name)
        await asyncio.sleep(60)
        assert machine.running == []
        assert list(stage.settings.pods.iterdir()) == []
        assert_never_two(stage)
        assert_in_order(stage)
        assert (await stage.api.list(Pod, "default")).objects == []

    with SeededLoop(seed=seed) as loop:
        stage = Stage(loop, folder)
        stage.play(scene)


def test_phases_never_go_back(stage: Stage) -> None:
    """A pod that has ended stays ended, whatever its agent goes through."""

    async def scene() -> None:
        seen: list[str] = []
        stage.machine.cast["app"] = FakeProgram(runs=20.0)
        await stage.pod({"restartPolicy": "Never", "initContainers": [app("init")], "containers": [app()]})
        stage.machine.cast["init"] = FakeProgram(runs=5.0)
        for number in range(120):
            await asyncio.sleep(0.5)
            if number % 7 == 3:
                await stage.restart_agent()
            now = phase(await stage.get())
            if now and (not seen or seen[-1] != now):
                seen.append(now)
        assert seen == ["Pending", "Running", "Succeeded"]

    stage.play(scene)
