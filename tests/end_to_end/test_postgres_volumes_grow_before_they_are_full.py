"""A real Postgres on a filesystem of its own, and a rule that grows it: Postgres does not notice."""

from __future__ import annotations

import os
import re
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.apiserver.metrics.scraped import Scraped
from tests.cli.running import pilothouse
from tests.kit.control_planes import UpPlane
from tests.kit.growing_postgres import EXAMPLES, PATIENCE, ROW, RULE, STARTED, Json, Postgres, rule
from tests.kit.processes import Process
from tests.kit.prometheus import Prometheus
from tests.kit.waiting import eventually
from tests.node.volumes.conftest import needed

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]


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
    (await plane.kubectl("apply", "-f", str(EXAMPLES / "postgres-rule.yaml"))).ok()

    await postgres.grows_to_the_limit()

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
    began = postgres.query(STARTED)

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

    with postgres.steadily_written():
        await postgres.decide("approved")
        await postgres.has("820Mi")

    assert postgres.query(STARTED) == began
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


FULL = """\
kubelet_volume_stats_used_bytes{{namespace="victim",persistentvolumeclaim="data-postgres-0"}} 99
kubelet_volume_stats_capacity_bytes{{namespace="victim",persistentvolumeclaim="data-postgres-0"}} 100
px_volume_usage_bytes{{volumename="{volume}"}} 99
px_volume_capacity_bytes{{volumename="{volume}"}} 100
"""


def pod(name: str, *command: str, **spec: Any) -> Json:
    """Anything that has a folder ``/data``."""
    container = {"name": "main", "command": command, "volumeMounts": [{"name": "data", "mountPath": "/data"}]}
    container["image"] = f"host/{command[0]}"
    whole = {"containers": [container], "terminationGracePeriodSeconds": 1, **spec}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": whole}


async def test_a_pods_page_that_speaks_of_anothers_claim_moves_nothing(plane: UpPlane) -> None:
    """It says that the claim is full. That is counted as foreign, and what the rule goes by is what the node says."""
    for namespace in ("victim", "liars"):
        (await plane.kubectl("create", "namespace", namespace)).ok()
    victim, liars = Postgres(plane, "victim"), Postgres(plane, "liars")
    wanted = {"accessModes": ["ReadWriteOnce"], "storageClassName": "loop"}
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "data-postgres-0", "labels": {"app": "postgres"}},
        "spec": {**wanted, "resources": {"requests": {"storage": "320Mi"}}},
    }
    volume = {"name": "data", "persistentVolumeClaim": {"claimName": "data-postgres-0"}}
    await victim.apply(claim, pod("owner", "sleep", "3600", volumes=[volume]))
    await victim.kubectl("wait", "--for=condition=Ready", "pod/owner", "--timeout=60s")
    name = (await victim.json("pvc", "data-postgres-0"))["spec"]["volumeName"]
    believing = rule("believing", "victim")
    used = "100 * px_volume_usage_bytes / px_volume_capacity_bytes"
    expressions = believing["spec"]["conditions"]["expressions"]
    expressions.append({"key": used, "operator": "Gt", "values": ["50"]})
    believing["spec"]["conditions"]["requiredMatches"] = 1
    await victim.apply(believing)
    await victim.reaches("believing", "Normal")

    def foreign() -> float:
        with urllib.request.urlopen(f"http://{plane.report['manager']}/metrics", timeout=10) as answer:
            return Scraped.read(answer.read()).value("pilothouse_rule_foreign_series_total")

    before = foreign()
    page = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "page"}}
    page["data"] = {"metrics": FULL.format(volume=name)}
    liar = pod("liar", "python3", "-m", "http.server", "9100", "--directory", "/data")
    liar["spec"]["volumes"] = [{"name": "data", "configMap": {"name": "page"}}]
    liar["metadata"]["annotations"] = {"prometheus.io/scrape": "true", "prometheus.io/port": "9100"}
    await liars.apply(page, liar)

    async def counted() -> bool:
        return foreign() >= before + len(FULL.splitlines())

    await eventually(counted, seconds=PATIENCE)
    assert '"GET /metrics HTTP/1.1" 200' in await liars.kubectl("logs", "liar")
    assert await victim.state("believing") == "Normal"
    assert await victim.actions() == []
    # The rule goes by this claim: asked for less than the node says, it acts, once.
    for each in expressions:
        each["values"] = ["0"]
    believing["spec"]["actionsCoolDownPeriod"] = 3600
    await victim.apply(believing)
    await victim.has("480Mi")
    (action,) = await victim.actions()
    values = [float(each["value"]) for each in action["spec"]["cause"]]
    assert len(values) == 2
    assert all(0 < each < 50 for each in values), values
    await plane.kubectl("delete", "autopilotrule", "believing")
    await plane.kubectl("delete", "namespace", "victim", "liars")


async def a_policy_of_2019_speaks_of_the_volume(
    plane: UpPlane, postgres: Postgres, url: str, folder: Path
) -> None:
    """The example's command, with the address of this Prometheus and the name of this volume in its files."""
    volume = (await postgres.json("pvc", "data-postgres-0"))["spec"]["volumeName"]
    for name, wrote, reads in (
        ("config-example.yaml", "http://127.0.0.1:9090", url),
        ("policy-example.yaml", "[pvc-1]", f"[{volume}]"),
    ):
        text = (EXAMPLES / "autopilot" / name).read_text()
        assert text.count(wrote) == 1
        (folder / name).write_text(text.replace(wrote, reads))
    command = (
        "-f",
        str(folder / "config-example.yaml"),
        "policy",
        "test",
        str(folder / "policy-example.yaml"),
    )

    done = pilothouse(*command, KUBECONFIG=str(plane.data / "admin.kubeconfig"))

    assert done.returncode == 0, done.stderr
    assert "kind: AutopilotRule" in done.stdout
    assert "rule volume-resize: 1 object\n" in done.stdout
    rows = [re.split(" {3,}", line) for line in done.stdout.splitlines()]
    heading = rows.index(["OBJECT", "EXPRESSION", "VALUE", "THRESHOLD", "MET"])
    (about, used, percent, above, is_met), (_, capacity, size, below, too) = rows[heading + 1 : heading + 3]
    assert about == "scraped/data-postgres-0"
    assert used == "100 * (px_volume_usage_bytes / px_volume_capacity_bytes)"
    assert float(percent) > 50
    assert (above, is_met) == ("Gt 30", "yes")
    assert (capacity, size) == ("px_volume_capacity_bytes / 1000000000", f"{2**30 / 1e9:.6g}")
    assert (below, too) == ("Lt 2048", "yes")
    assert "would: scraped/data-postgres-0: volume/resize from 1Gi to " in done.stdout


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

            began = postgres.query(STARTED)
            with postgres.steadily_written():
                await postgres.reaches("scraping", "ActionsDeclined")

            assert await postgres.sizes() == ("1Gi", "1Gi")
            done = [each for each in await postgres.actions() if each["status"]["phase"] == "Succeeded"]
            assert [each["status"]["after"]["size"] for each in done] == ["480Mi", "720Mi", "1Gi"]
            assert postgres.query(STARTED) == began
            served = r'prometheus_http_requests_total\{code="200",handler="/api/v1/query"\} ([1-9]\d*)'
            assert re.search(served, prometheus.page("/metrics").decode())
            await a_policy_of_2019_speaks_of_the_volume(plane, postgres, prometheus.url, tmp_path)
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
