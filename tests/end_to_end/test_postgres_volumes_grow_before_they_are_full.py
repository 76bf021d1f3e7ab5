"""A real Postgres on a filesystem of its own, and a rule that grows it: Postgres does not notice."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.kit.control_planes import UpPlane
from tests.kit.processes import Process
from tests.kit.prometheus import Prometheus
from tests.kit.waiting import eventually
from tests.node.volumes.conftest import needed

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]

EXAMPLES = Path(__file__).parents[2] / "examples"
RULE = "postgres-volumes"
MI = 1 << 20
PATIENCE = 300.0
ROW = "insert into filler select repeat(md5(random()::text), 250) from generate_series(1, {rows})"
"""Rows of 8000 characters, which take as much in the log as in the table."""
ROW_BYTES = 16000
ROWS_A_SECOND = 250
"""4 MB a second: a volume of 320Mi that is half full lasts for 40 seconds, and the example's rule takes half of that."""
Json = dict[str, Any]


class Postgres:
    """A server of the example, in a namespace of its own."""

    def __init__(self, plane: UpPlane, namespace: str) -> None:
        self.plane = plane
        self.namespace = namespace
        self.inserts = 0

    async def kubectl(self, *words: str) -> str:
        return (await self.plane.kubectl("-n", self.namespace, *words)).ok()

    async def json(self, *words: str) -> Json:
        found: Json = json.loads(await self.kubectl("get", *words, "-o", "json"))
        return found

    async def apply(self, *objects: Json) -> None:
        path = self.plane.folder / f"{self.namespace}.yaml"
        path.write_text(yaml.safe_dump_all(objects))
        await self.kubectl("apply", "-f", str(path))

    async def start(self, size: str = "320Mi") -> None:
        """One server instead of three, with a volume of this size."""
        await self.plane.kubectl("create", "namespace", self.namespace)
        objects = list(yaml.safe_load_all((EXAMPLES / "postgres.yaml").read_text()))
        for each in objects:
            if each["kind"] == "StatefulSet":
                each["spec"]["replicas"] = 1
                (claim,) = each["spec"]["volumeClaimTemplates"]
                claim["spec"]["resources"]["requests"]["storage"] = size
        await self.apply(*objects)
        await self.ready()
        self.query("create table filler (text text); alter table filler alter text set storage external")

    async def ready(self) -> None:
        async def look() -> bool:
            got = await self.plane.kubectl("-n", self.namespace, "get", "pod", "postgres-0", "-o", "json")
            pod = json.loads(got.out) if got.code == 0 else {}
            self.address = str((pod.get("status") or {}).get("podIP", ""))
            statuses = (pod.get("status") or {}).get("containerStatuses") or [{}]
            return all(each.get("ready") for each in statuses)

        await eventually(look, seconds=PATIENCE)

    def query(self, text: str) -> str:
        words = ["psql", "-h", self.address, "-U", "postgres", "-v", "ON_ERROR_STOP=1", "-qtAc", text]
        done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    async def usage(self) -> tuple[int, int]:
        """Used bytes and all bytes of the filesystem, as df reports them in the pod."""
        asked = ("exec", "postgres-0", "--", "df", "--block-size=1", "--output=used,size", "/data")
        used, size = (await self.kubectl(*asked)).split()[-2:]
        return int(used), int(size)

    async def fill(self, share: float = 0.55) -> None:
        """Insert rows until this share of the volume is used."""
        while (missing := await self._missing(share)) > 0:
            self.insert(min(missing // ROW_BYTES + 1, 1000))

    async def _missing(self, share: float) -> int:
        used, size = await self.usage()
        return int(share * size) - used

    def insert(self, rows: int) -> None:
        self.query(ROW.format(rows=rows))
        self.inserts += rows

    @contextmanager
    def steadily_written(self) -> Iterator[None]:
        """Rows are inserted all the time, whatever the volume is like; at the end, none of them has failed."""
        over = threading.Event()

        def write() -> None:
            while not over.wait(1):
                self.insert(ROWS_A_SECOND)

        with ThreadPoolExecutor(1) as pool:
            writing = pool.submit(write)
            try:
                yield
            finally:
                over.set()
            writing.result()

    async def state(self, rule: str) -> str:
        found = (await self.json("autopilotruleobjects", "-l", f"rule={rule}"))["items"]
        return str((found[0].get("status") or {}).get("state", "")) if found else ""

    async def reaches(self, rule: str, state: str) -> None:
        async def look() -> bool:
            return await self.state(rule) == state

        await eventually(look, seconds=PATIENCE)

    async def actions(self) -> list[Json]:
        found = (await self.json("applicationactions"))["items"]
        return sorted(found, key=lambda each: each["spec"].get("trigger", 0))

    async def sizes(self) -> tuple[str, str]:
        """What the claim requests, and what it has."""
        claim = await self.json("pvc", "data-postgres-0")
        return claim["spec"]["resources"]["requests"]["storage"], claim["status"]["capacity"]["storage"]

    async def has(self, size: str) -> None:
        async def look() -> bool:
            return await self.sizes() == (size, size)

        await eventually(look, seconds=PATIENCE)

    async def question(self) -> Json:
        """The only ActionApproval."""
        (found,) = (await self.json("actionapprovals"))["items"]
        asked: Json = found
        return asked

    async def decide(self, state: str) -> None:
        name = (await self.question())["metadata"]["name"]
        decision = json.dumps({"spec": {"approvalState": state}})
        await self.kubectl("patch", "actionapproval", name, "--type=merge", "-p", decision)

    async def transitions(self, rule: str) -> Counter[str]:
        """How often each transition was reported of a rule."""
        got = await self.plane.kubectl("get", "events", "-n", "default", "-o", "json")
        found: Counter[str] = Counter()
        for event in json.loads(got.ok())["items"]:
            if event["involvedObject"]["name"] == rule and event["reason"] == "Transition":
                found[event["message"].partition("transition from ")[2]] += event.get("count") or 1
        return found


def rule(name: str, namespace: str, **spec: Any) -> Json:
    """The example, for the volumes of a namespace, and quicker."""
    made: Json = yaml.safe_load((EXAMPLES / "postgres-rule.yaml").read_text())
    made["metadata"]["name"] = name
    made["spec"] |= {
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
        "pollInterval": 1,
        "actionsCoolDownPeriod": 1,
        **spec,
    }
    made["spec"]["conditions"]["for"] = 1
    return made


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[UpPlane]:
    if os.geteuid() != 0:
        pytest.skip("it makes and mounts filesystems, which only root may")
    needed("postgres", "psql", "mkfs.xfs")
    with UpPlane(tmp_path_factory.mktemp("plane")) as running:
        yield running


async def test_it_grows_step_by_step_to_the_limit_and_postgres_does_not_notice(plane: UpPlane) -> None:
    postgres = Postgres(plane, "default")
    await postgres.start()
    began = postgres.query("select pg_postmaster_start_time()")
    (await plane.kubectl("apply", "-f", str(EXAMPLES / "postgres-rule.yaml"))).ok()
    await postgres.reaches(RULE, "Normal")

    with postgres.steadily_written():
        await postgres.reaches(RULE, "ActionsDeclined")

    assert await postgres.sizes() == ("1Gi", "1Gi")
    done = [each for each in await postgres.actions() if each["status"]["phase"] == "Succeeded"]
    assert [
        (each["status"]["before"]["size"], each["spec"]["target"]["to"], each["status"]["after"]["size"])
        for each in done
    ] == [("320Mi", "480Mi", "480Mi"), ("480Mi", "720Mi", "720Mi"), ("720Mi", "1Gi", "1Gi")]
    for each in done:
        (cause,) = each["spec"]["cause"]
        assert float(cause["value"]) > 50
        assert (cause["operator"], cause["threshold"]) == ("Gt", ["50"])
    _, size = await postgres.usage()
    assert size > 900 * MI
    assert postgres.query("select pg_postmaster_start_time()") == began
    assert int(postgres.query("select count(*) from filler")) == postgres.inserts
    seen = await postgres.transitions(RULE)
    assert seen["Initializing => Normal"] == 1
    assert seen["ActiveActionsInProgress => ActiveActionsTaken"] == 3
    assert seen["ActiveActionsTaken => Normal"] == 3
    for transition in ("Normal => Triggered", "Triggered => ActiveActionsPending"):
        assert seen[transition] >= 3
    (await plane.kubectl("delete", "-f", str(EXAMPLES / "postgres-rule.yaml"))).ok()
    await postgres.kubectl("delete", "statefulset", "postgres")


async def test_a_person_is_asked_first(plane: UpPlane) -> None:
    """px-D3 at 1/25: declined it stays as it is until the approval is deleted; approved it doubles, once."""
    postgres = Postgres(plane, "asked")
    await postgres.start("410Mi")
    resize = {"name": "openstorage.io.action.volume/resize", "params": {"scalepercentage": "100"}}
    await postgres.apply(rule("asking", "asked", enforcement="approvalRequired", actions=[resize]))

    await postgres.fill()
    await postgres.reaches("asking", "ActionAwaitingApproval")

    question = await postgres.question()
    assert question["spec"]["approvalState"] == "pending"
    assert question["status"]["target"]["to"] == "820Mi"
    await postgres.decide("declined")
    await postgres.reaches("asking", "ActionsDeclined")
    assert (await postgres.question())["status"]["decidedBy"] == "admin"
    assert await postgres.sizes() == ("410Mi", "410Mi")
    await postgres.kubectl("delete", "actionapproval", question["metadata"]["name"])
    await postgres.reaches("asking", "ActionAwaitingApproval")
    assert await postgres.actions() == []

    await postgres.decide("approved")

    await postgres.has("820Mi")
    (action,) = await postgres.actions()
    assert action["spec"]["approval"] == question["metadata"]["name"]
    assert action["spec"]["target"]["to"] == "820Mi"
    await plane.kubectl("delete", "autopilotrule", "asking")
    await postgres.kubectl("delete", "statefulset", "postgres")


async def test_the_last_step_is_as_large_as_the_limit_allows(plane: UpPlane) -> None:
    """px-T3 at 1/25: 320Mi, 480Mi, 720Mi, 800Mi, and then it is declined."""
    postgres = Postgres(plane, "limited")
    await postgres.start()
    params = {"scalepercentage": "50", "maxsize": "800Mi"}
    resize = {"name": "openstorage.io.action.volume/resize", "params": params}
    await postgres.apply(rule("limiting", "limited", actions=[resize]))

    for size in ("480Mi", "720Mi", "800Mi"):
        await postgres.fill()
        await postgres.has(size)
    await postgres.fill()
    await postgres.reaches("limiting", "ActionsDeclined")

    done = [each for each in await postgres.actions() if each["status"]["phase"] == "Succeeded"]
    assert [each["status"]["after"]["size"] for each in done] == ["480Mi", "720Mi", "800Mi"]
    assert await postgres.sizes() == ("800Mi", "800Mi")
    await plane.kubectl("delete", "autopilotrule", "limiting")
    await postgres.kubectl("delete", "statefulset", "postgres")


@pytest.fixture
def operator(plane: UpPlane, tmp_path: Path) -> Iterator[Process]:
    """The example's operator, until the test ends."""
    argv = [sys.executable, "-m", "kopf", "run", "--standalone", "-n", "snapshots"]
    env = {
        "KUBECONFIG": str(plane.data / "admin.kubeconfig"),
        "HOME": str(tmp_path),
        "PATH": os.environ["PATH"],
    }
    file = EXAMPLES / "snapshot-operator.py"
    process = Process.start("kopf", [*argv, str(file)], log=tmp_path / "kopf.log", env=env)
    yield process
    process.end(seconds=5)


async def test_an_operator_carries_out_an_action_of_its_own_domain(plane: UpPlane, operator: Process) -> None:
    postgres = Postgres(plane, "snapshots")
    await postgres.start()
    action = {"name": "example.com.action.volume/snapshot", "params": {"keep": "7"}}
    large = {"keyAlias": "VolumeCapacityGB", "operator": "Gt", "values": ["0"]}
    made = rule("snapping", "snapshots", actions=[action], actionsCoolDownPeriod=3600)
    made["spec"]["conditions"]["expressions"] = [large]
    await postgres.apply(made)
    await postgres.reaches("snapping", "ActiveActionsTaken")

    (done,) = await postgres.actions()
    assert done["status"]["phase"] == "Succeeded"
    assert done["status"]["after"] == {"snapshot": f"snapshot-{done['metadata']['name']}"}
    assert f"snapshot-{done['metadata']['name']} of snapshots/data-postgres-0" in operator.output()
    await plane.kubectl("delete", "autopilotrule", "snapping")
    await postgres.kubectl("delete", "statefulset", "postgres")


async def test_a_prometheus_has_the_metrics(plane: UpPlane, tmp_path: Path) -> None:
    """Configured by what prometheus-config prints, and named in the data folder while `up` runs."""
    needed("prometheus")
    keys = ("--credentials", str(tmp_path / "keys"))
    config = plane.run("prometheus-config", *keys)
    assert config.returncode == 0, config.stderr
    postgres = Postgres(plane, "scraped")
    await postgres.start()
    file = plane.data / "autopilot.yaml"
    with Prometheus(config.stdout, tmp_path) as prometheus:
        provider = {"name": "default", "type": "prometheus", "params": f"url={prometheus.url}"}
        file.write_text(yaml.safe_dump({"providers": [provider]}))
        try:
            made = rule("scraping", "scraped")
            # Names of Portworx, by volumename.
            usage = "100 * (px_volume_usage_bytes / px_volume_capacity_bytes)"
            made["spec"]["conditions"]["expressions"] = [{"key": usage, "operator": "Gt", "values": ["50"]}]
            await postgres.apply(made)
            await postgres.reaches("scraping", "Normal")

            # Of the volume, which is larger than its filesystem.
            await postgres.fill(2 / 3)

            await postgres.has("480Mi")
            served = r'prometheus_http_requests_total\{code="200",handler="/api/v1/query"\} ([1-9]\d*)'
            assert re.search(served, prometheus.page("/metrics").decode())
            await plane.kubectl("delete", "autopilotrule", "scraping")
        finally:
            file.unlink()
    await postgres.kubectl("delete", "statefulset", "postgres")


async def test_a_database_that_can_not_start_because_its_volume_is_full_is_grown(plane: UpPlane) -> None:
    postgres = Postgres(plane, "full")
    await postgres.start()
    postgres.query(ROW.format(rows=10))
    # Something else fills the volume to the last byte, and Postgres crashes.
    filling = (
        "cat /dev/zero >/data/hole 2>/dev/null; sync; kill -QUIT $(head -1 /data/db/postmaster.pid); true"
    )
    await postgres.kubectl("exec", "postgres-0", "--", "sh", "-c", filling)

    async def looping() -> bool:
        pod = await postgres.json("pod", "postgres-0")
        (container,) = pod["status"]["containerStatuses"]
        reason: str = (container["state"].get("waiting") or {}).get("reason", "")
        return reason == "CrashLoopBackOff"

    await eventually(looping, seconds=PATIENCE)
    await postgres.apply(rule("rescuing", "full"))
    await postgres.ready()

    # Half of what it has now is still more than what the hole leaves, so it may have grown more than once.
    done = [each for each in await postgres.actions() if each["status"].get("phase") == "Succeeded"]
    assert done[0]["spec"]["target"]["to"] == "480Mi"
    assert int(postgres.query("select count(*) from filler")) == 10
