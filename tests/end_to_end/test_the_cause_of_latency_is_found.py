"""The example of a Postgres whose latency has a cause: its volume is at its limit, its disk is busy with the writes of
somebody else, or neither. Each time the right thing is done, and Postgres' own WAL syncs take less time afterwards.
"""

from __future__ import annotations

import json
import math
import mmap
import os
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.kit.control_planes import UpPlane
from tests.kit.waiting import eventually
from tests.node.volumes.conftest import needed

from pilothouse.supervise import cgroups

pytestmark = [pytest.mark.long, pytest.mark.timeout(1200)]

EXAMPLE = Path(__file__).parents[2] / "examples" / "postgres-latency.yaml"
BIN = next(iter(sorted(Path("/usr/lib/postgresql").glob("*/bin"))), None)
MEMORY = Path("/dev/shm")
SLOW, QUIET = "orders-latency-slow-volume", "orders-latency-quiet-volume"
SECONDS = 240.0
MI = 1 << 20
WINDOW = 45
"""Seconds, in which there are three samples."""
WRITERS = 24
TIGHT = {
    "apiVersion": "storage.k8s.io/v1",
    "kind": "VolumeAttributesClass",
    "metadata": {"name": "tight"},
    "driverName": "pilothouse.io/loop",
    "parameters": {"iops": "50"},
}
"""As slow as no disk is, however busy."""
Json = dict[str, Any]


class Orders:
    """The Postgres of the example."""

    def __init__(self, plane: UpPlane) -> None:
        self.plane = plane
        self.address = ""

    async def kubectl(self, *words: str, stdin: str = "") -> str:
        return (await self.plane.kubectl(*words, stdin=stdin)).ok()

    async def json(self, *words: str) -> Json:
        found: Json = json.loads(await self.kubectl("get", *words, "-o", "json"))
        return found

    async def ready(self) -> None:
        async def look() -> bool:
            got = await self.plane.kubectl("get", "pod", "orders-0", "-o", "json")
            pod = json.loads(got.out) if got.code == 0 else {}
            self.address = str((pod.get("status") or {}).get("podIP", ""))
            statuses = (pod.get("status") or {}).get("containerStatuses") or [{}]
            return all(each.get("ready") for each in statuses)

        await eventually(look, seconds=SECONDS)

    def command(self, program: str, *words: str) -> list[str]:
        assert BIN is not None
        return [str(BIN / program), "-h", self.address, "-U", "postgres", *words]

    def query(self, text: str) -> str:
        done = subprocess.run(
            self.command("psql", "-qtAc", text), capture_output=True, text=True, timeout=120, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def sync_milliseconds(self) -> float:
        """How long a WAL sync of Postgres takes on average while orders are written for some seconds."""

        def figures() -> tuple[float, float]:
            count, spent = self.query("select wal_sync, wal_sync_time from pg_stat_wal").split("|")
            return float(count), float(spent)

        count, spent = figures()
        with self.written():
            self.query("select pg_sleep(8)")
        later, more = figures()
        assert later > count
        return (more - spent) / (later - count)

    async def syncs(self, least: float = 0.0, most: float = math.inf) -> float:
        """The milliseconds of a WAL sync once they are within these bounds: limits follow within seconds."""

        async def look() -> float | None:
            found = self.sync_milliseconds()
            return found if least < found < most else None

        return await eventually(look, seconds=SECONDS)

    @contextmanager
    def written(self) -> Iterator[None]:
        """Orders are written all the time, by one client."""
        with tempfile.NamedTemporaryFile("w", suffix=".sql") as script:
            script.write("insert into orders (note) values (repeat('x', 100));\n")
            script.flush()
            words = self.command("pgbench", "-n", "-c", "1", "-T", "3600", "-f", script.name, "postgres")
            with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as writer:
                try:
                    yield
                finally:
                    writer.kill()

    async def actions(self) -> list[Json]:
        """Those that were decided about the volume, in their order."""
        found = (await self.json("applicationactions"))["items"]
        return sorted(found, key=lambda each: each["metadata"]["creationTimestamp"])

    async def next_action(self, number: int, *phases: str) -> Json:
        """The action of this number, once it has ended, or is in one of these phases."""

        async def look() -> Json | None:
            found = await self.actions()
            if len(found) <= number:
                return None
            phase = (found[number].get("status") or {}).get("phase")
            return found[number] if phase in (*phases, "Succeeded", "Failed", "Declined") else None

        return await eventually(look, seconds=SECONDS)

    async def record(self, rule: str) -> Json:
        (found,) = (await self.json("autopilotruleobjects", "-l", f"rule={rule}"))["items"]
        status: Json = found.get("status") or {}
        return status

    async def reaches(self, rule: str, state: str) -> Json:
        async def look() -> Json | None:
            items = (await self.json("autopilotruleobjects", "-l", f"rule={rule}"))["items"]
            status: Json = (items[0].get("status") or {}) if items else {}
            return status if status.get("state") == state else None

        return await eventually(look, seconds=SECONDS)


@contextmanager
def noise(folder: Path) -> Iterator[None]:
    """Somebody else writes to the disk, past the page cache, as much as it takes."""
    over = threading.Event()

    def write(number: int) -> None:
        path = folder / f"noise-{number}"
        # Direct writes need a buffer that is aligned to pages.
        with mmap.mmap(-1, 4 * MI) as buffer:
            file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_DIRECT, 0o600)
            try:
                while not over.is_set():
                    for place in range(0, 64 * MI, len(buffer)):
                        os.pwrite(file, buffer, place)
            finally:
                os.close(file)
                path.unlink()

    with ThreadPoolExecutor(WRITERS) as pool:
        writing = [pool.submit(write, number) for number in range(WRITERS)]
        try:
            yield
        finally:
            over.set()
        for each in writing:
            each.result()


def chain(action: Json) -> list[tuple[str, str, bool]]:
    """What was compared: the candidate, the level, and whether it held."""
    return [
        (each.get("candidate", ""), each["level"], each.get("held", False))
        for each in action["spec"]["cause"]
    ]


def quicker(rule: Json, latency: float = 0.0) -> Json:
    """A rule of the example, on its own and within seconds; with this latency in milliseconds, if one is given."""
    made = json.loads(json.dumps(rule["spec"]).replace("[120s]", f"[{WINDOW}s]"))
    made |= {"pollInterval": 5, "actionsCoolDownPeriod": 10}
    made["conditions"]["for"] = WINDOW
    for expression in made["conditions"]["expressions"]:
        if "max_tx_duration" in expression["key"]:
            expression["values"] = ["10"]
        elif latency:
            expression["values"] = [f"{latency / 1000:.4f}"]
    return {
        "apiVersion": rule["apiVersion"],
        "kind": rule["kind"],
        "metadata": {"name": rule["metadata"]["name"]},
        "spec": made,
    }


@pytest.fixture
def plane(tmp_path: Path) -> Iterator[UpPlane]:
    if os.geteuid() != 0:
        pytest.skip("it makes and mounts filesystems, which only root may")
    needed("postgres", "prometheus-postgres-exporter", "mkfs.xfs")
    if why := cgroups.find("pilothouse/test").unavailable.get("io"):
        pytest.skip(f"this machine limits no I/O: {why}")
    if os.statvfs(MEMORY).f_bavail * os.statvfs(MEMORY).f_bsize < 1024 * MI:
        pytest.skip(f"{MEMORY} has no gigabyte of room for a tier")
    with (
        tempfile.TemporaryDirectory(dir=MEMORY) as fast,
        UpPlane(tmp_path, "--tier", f"fast={fast}") as running,
    ):
        yield running


async def test_each_cause_is_found_and_ended(plane: UpPlane, tmp_path: Path) -> None:
    orders = Orders(plane)
    objects = list(yaml.safe_load_all(EXAMPLE.read_text()))
    await orders.kubectl("apply", "-f", str(EXAMPLE))
    await orders.ready()
    orders.query("create table orders (number bigserial, note text)")

    # The policy has become rules; from here on the same rules are followed, only quicker.
    async def expanded() -> list[Json] | None:
        found = (await orders.json("autopilotrules"))["items"]
        return found if {each["metadata"]["name"] for each in found} == {SLOW, QUIET} else None

    rules = {each["metadata"]["name"]: each for each in await eventually(expanded, seconds=SECONDS)}
    (policy,) = (each for each in objects if each["kind"] == "ApplicationPolicy")
    await orders.kubectl("delete", "applicationpolicy", policy["metadata"]["name"])

    async def gone() -> bool:
        return not (await orders.json("autopilotrules"))["items"]

    await eventually(gone, seconds=SECONDS)

    # Its volume is at its limit, and the disk below is not busy.
    usual = orders.sync_milliseconds()
    await orders.kubectl("apply", "-f", "-", stdin=json.dumps(TIGHT))
    await orders.kubectl(
        "patch", "pvc", "data-orders-0", "-p", '{"spec":{"volumeAttributesClassName":"tight"}}'
    )

    async def tight() -> bool:
        claim = await orders.json("pvc", "data-orders-0")
        return bool(claim["status"].get("currentVolumeAttributesClassName") == "tight")

    await eventually(tight, seconds=SECONDS)
    limited = await orders.syncs(least=2 * usual)
    await orders.kubectl("apply", "-f", "-", stdin=json.dumps(quicker(rules[SLOW], limited / 2)))
    with orders.written():
        raised = await orders.next_action(0)
    assert raised["status"]["phase"] == "Succeeded", raised["status"]
    assert raised["spec"]["action"] == "openstorage.io.action.volume/setiops"
    assert (raised["spec"]["target"]["from"], raised["spec"]["target"]["iops"]) == ("50 IOPS", "500")
    assert ("writes-at-the-limit", "volume", True) in chain(raised)
    assert ("writes-at-the-limit", "device", True) in chain(raised)
    free = await orders.syncs(most=limited / 2)
    print(f"a WAL sync took {limited:.1f} ms at the limit, and takes {free:.1f} ms")

    # Somebody else writes to the disk.
    await orders.reaches(SLOW, "Normal")
    with noise(tmp_path):
        noisy = await orders.syncs(least=2 * free)
        await orders.kubectl("apply", "-f", "-", stdin=json.dumps(quicker(rules[SLOW], noisy / 2)))
        with orders.written():
            moved = await orders.next_action(1, "Running")
    assert moved["spec"]["action"] == "openstorage.io.action.volume/move"
    assert moved["spec"]["target"]["to"] == "fast"
    assert ("disk-busy-with-others", "device", True) in chain(moved)
    moved = await orders.next_action(1)
    assert moved["status"]["phase"] == "Succeeded", moved["status"]
    await orders.ready()
    with noise(tmp_path):
        alone = await orders.syncs(most=noisy / 2)
    print(f"beside others, a WAL sync took {noisy:.1f} ms, and takes {alone:.1f} ms")

    # A statement is slow by itself: it is told, and nothing is done.
    await orders.reaches(SLOW, "Normal")
    with ThreadPoolExecutor(1) as pool:
        statement = pool.submit(orders.query, "select pg_sleep(90)")
        declined = await orders.reaches(SLOW, "ActionsDeclined")
        statement.result()
    message = declined["items"][-1]["message"]
    for candidate in ("reads-at-the-limit", "writes-at-the-limit", "disk-busy-with-others"):
        assert candidate in message
    assert len(await orders.actions()) == 2

    # Nobody writes any more: IOPS go down again.
    await orders.kubectl("apply", "-f", "-", stdin=json.dumps(quicker(rules[QUIET])))
    lowered = await orders.next_action(2)
    assert (lowered["spec"]["rule"], lowered["status"]["phase"]) == (QUIET, "Succeeded"), lowered["status"]
    assert lowered["spec"]["action"] == "openstorage.io.action.volume/setiops"
    assert lowered["spec"]["target"]["iops"] == "250"
