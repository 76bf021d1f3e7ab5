"""Pods whose files can't be counted to the end: they have to go, and nobody else waits for them."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.kit.other_users import as_user
from tests.node.volumes.conftest import World

from pilothouse.aio.daemon_threads import DaemonThreads
from pilothouse.node.files.directory_usage import DirectoryUsage, measure_disk_usage
from pilothouse.node.files.walk_limits import Meter, WalkLimit
from pilothouse.node.pods.ephemeral_storage import measure_storage
from pilothouse.node.volumes.pod_usage import PodUsage
from pilothouse.node.volumes.pod_volumes import PodVolumes

LONG = 120.0
OTHER = 64_998
ENDLESS = """
import ctypes, os, struct, sys
base, levels = sys.argv[1], 1500
libc = ctypes.CDLL(None, use_errno=True)
def chain(name):
    os.mkdir(f"{base}/{name}")
    top = end = os.open(f"{base}/{name}", os.O_RDONLY)
    for _ in range(levels):
        os.mkdir("d", dir_fd=end)
        below = os.open("d", os.O_RDONLY, dir_fd=end)
        if end != top:
            os.close(end)
        end = below
    return top, end
chains = [chain("s0"), chain("s1")]
root = os.open(base, os.O_RDONLY)
os.rename("s1", "d", src_dir_fd=root, dst_dir_fd=chains[0][1])
notify = libc.inotify_init1(0)
watched = [libc.inotify_add_watch(notify, f"/proc/self/fd/{top}".encode(), 0x20) for top, _ in chains]
print("ready", flush=True)
upper = 0
while True:
    events, at, entered = os.read(notify, 4096), 0, False
    while at < len(events):
        which, _, _, length = struct.unpack_from("iIII", events, at)
        at += 16 + length
        entered = entered or which == watched[1 - upper]
    if entered:
        lower = 1 - upper
        os.rename("d", f"s{lower}", src_dir_fd=chains[upper][1], dst_dir_fd=root)
        os.rename(f"s{upper}", "d", src_dir_fd=root, dst_dir_fd=chains[lower][1])
        upper = lower
"""
"""As soon as the lower of two chains of folders is entered, it becomes the upper one, with the other below its end."""


@contextmanager
def endless(folder: Path) -> Iterator[None]:
    command = [sys.executable, "-I", "-c", ENDLESS, str(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as attacker:
        assert attacker.stdout is not None
        try:
            assert attacker.stdout.readline() == "ready\n"
            yield
        finally:
            attacker.kill()
            attacker.wait()
            # Nothing that recurses could remove it.
            subprocess.run(["rm", "-rf", folder / "s0", folder / "s1"], check=True)


@pytest.fixture
def in_memory() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(dir="/dev/shm", prefix="test-measuring-") as folder:
        yield Path(folder)


async def test_a_tree_that_is_moved_about_delays_neither_files_nor_the_measuring_of_others(
    world: World, volumes: PodVolumes
) -> None:
    await world.config("app", {"a": "1"})
    limited = {"resources": {"limits": {"ephemeral-storage": "1Mi"}}}
    hostile = await world.pod({"name": "e", "emptyDir": {}}, name="hostile", container=limited)
    honest = await world.pod(
        {"name": "c", "configMap": {"name": "app"}},
        {"name": "e", "emptyDir": {"sizeLimit": "1Mi"}},
        name="honest",
    )
    place = (await volumes.prepare(hostile))["e"].path
    prepared = await volumes.prepare(honest)
    with endless(place):
        measuring = asyncio.ensure_future(volumes.measure())
        await world.config("app", {"a": "2"})
        async with asyncio.timeout(LONG):
            await volumes.refresh()
            assert (prepared["c"].path / "a").read_text() == "2"
            (prepared["e"].path / "large").write_bytes(bytes(2 << 20))
            await measuring
            await volumes.measure()
    assert volumes.excess(honest.uid) == 'Usage of EmptyDir volume "e" exceeds the limit "1Mi".'
    assert "ephemeral local storage usage" in volumes.excess(hostile.uid)


@pytest.mark.parametrize(
    ("limit", "why"),
    [
        (WalkLimit(depth=2, entries=1000), "folders more than 2 levels deep"),
        (WalkLimit(depth=9, entries=99), "more than 99 files and folders"),
        (WalkLimit(depth=9, entries=1000, seconds=-1.0), "not counted within -1 s"),
    ],
)
def test_a_walk_has_a_limit_of_depth_entries_and_time(in_memory: Path, limit: WalkLimit, why: str) -> None:
    (in_memory / "a" / "b" / "c").mkdir(parents=True)
    for number in range(300):
        (in_memory / f"file{number}").touch()
    found = measure_disk_usage(in_memory, Meter(limit))
    assert (found.unmeasured, found.timed_out) == (why, "within" in why)
    assert measure_disk_usage(in_memory) == DirectoryUsage(0, 303)


def test_all_folders_of_a_pod_have_the_limit_together(in_memory: Path) -> None:
    for name in ("containers/a", "containers/b", "volumes"):
        (in_memory / name).mkdir(parents=True)
        for number in range(40):
            (in_memory / name / str(number)).touch()
    assert measure_storage(in_memory, WalkLimit(depth=9, entries=120)).total == DirectoryUsage(0, 120)
    assert measure_storage(in_memory, WalkLimit(depth=9, entries=100)).total.unmeasured == (
        "more than 100 files and folders"
    )


async def test_a_pod_for_which_only_time_ran_out_has_to_go_the_third_time(
    world: World, in_memory: Path
) -> None:
    pod = await world.pod({"name": "e", "emptyDir": {"sizeLimit": "1Gi"}})
    for number in range(300):
        (in_memory / f"file{number}").touch()
    usage = PodUsage(in_memory, WalkLimit(depth=9, entries=1000, seconds=-1.0))
    said = []
    for _ in range(3):
        await usage.measure(pod, {"e": in_memory})
        said.append(usage.excess(pod.uid))
    assert said == [
        "",
        "",
        'Usage of EmptyDir volume "e" can\'t be measured (not counted within -1 s), which counts as more than the limit "1Gi".',
    ]


@pytest.fixture
def others(in_memory: Path) -> Path:
    """A folder in which another user may do everything."""
    if os.geteuid() != 0:
        pytest.skip("it acts as another user")
    in_memory.chmod(0o755)
    (in_memory / "pod").mkdir()
    os.chown(in_memory / "pod", OTHER, OTHER)
    return in_memory / "pod"


@pytest.mark.parametrize("mode", [0o300, 0o600, 0o000, 0o100])
@pytest.mark.parametrize("closed", ["hidden", "."])
def test_what_a_pod_has_closed_to_its_own_user_counts(others: Path, mode: int, closed: str) -> None:
    volume = others / "volumes" / "e"

    def act() -> str:
        (volume / "hidden").mkdir(parents=True)
        (volume / "hidden" / "large").write_bytes(bytes(4 << 20))
        (volume / "beside").write_bytes(bytes(1 << 20))
        (volume / closed).chmod(mode)
        found, kept = measure_disk_usage(volume), measure_storage(others)
        return f"{found.size >> 20} {found.unmeasured}{kept.total.size >> 20} {kept.total.unmeasured}"

    assert as_user(OTHER, act) == "5 5 "


def test_what_belongs_to_somebody_else_and_is_closed_counts_as_unmeasured(others: Path) -> None:
    (others / "closed").mkdir(mode=0o700)
    assert as_user(OTHER, lambda: measure_disk_usage(others).unmeasured) == "closed can't be listed"


async def test_work_of_a_caller_that_has_left_keeps_its_place(in_memory: Path) -> None:
    pipe = in_memory / "pipe"
    os.mkfifo(pipe)
    threads = DaemonThreads("test", 1)
    first = asyncio.ensure_future(threads.run(pipe.read_bytes))
    second = asyncio.ensure_future(threads.run(lambda: "second"))
    await asyncio.sleep(0)
    first.cancel()
    await asyncio.wait([first], timeout=LONG)
    assert first.cancelled()
    assert not second.done()
    handle = os.open(pipe, os.O_WRONLY)
    os.close(handle)
    async with asyncio.timeout(LONG):
        assert await second == "second"
    with pytest.raises(ZeroDivisionError):
        await threads.run(lambda: 1 // 0)
