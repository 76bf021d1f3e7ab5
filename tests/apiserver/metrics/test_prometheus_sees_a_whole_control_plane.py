"""A real Prometheus, with nothing but what `prometheus-config` prints, scrapes all of a control plane, and follows pods that come and go."""

from __future__ import annotations

import copy
import json
from pathlib import Path

import pytest
from tests.cli.running import pilothouse
from tests.kit import tools
from tests.kit.control_planes import UpPlane
from tests.kit.prometheus import Prometheus
from tests.kit.waiting import eventually
from tests.pilot.test_a_pilot_in_a_pod import POD

OTHERS = {"apiserver", "objects", "nodes", "controller-manager"}


def config_of(plane: UpPlane, folder: Path) -> str:
    told = pilothouse("prometheus-config", "--data", str(plane.data), "--credentials", str(folder / "keys"))
    assert told.returncode == 0, told.stderr
    assert "no controller-manager" not in told.stderr
    return told.stdout


@pytest.mark.long
async def test_server_manager_node_and_every_pilot_are_scraped(tmp_path: Path) -> None:
    for program in ("redis-server", "prometheus"):
        tools.find(program)
    with UpPlane(tmp_path) as plane:
        names = {f"cache-{number}" for number in range(2)}
        for name in names:
            pod = copy.deepcopy(POD)
            pod["metadata"]["name"] = name
            # Whatever ports a pod declares, its pilot is one target.
            pod["spec"]["containers"][0]["ports"] = [{"containerPort": 6379}, {"containerPort": 12001}]
            (await plane.kubectl("apply", "-f", "-", stdin=json.dumps(pod))).ok()
        with Prometheus(config_of(plane, tmp_path), tmp_path) as prometheus:

            async def scraped(wanted: set[str]) -> None:
                async def so() -> bool:
                    found = {
                        (labels["job"].removeprefix("pilothouse-"), labels.get("pod", ""))
                        for labels, value in prometheus.query("up")
                        if value == 1.0
                    }
                    return found == {("pilots", name) for name in wanted} | {(job, "") for job in OTHERS}

                await eventually(so, seconds=120)

            await scraped(names)
            for metric, job in (
                ("apiserver_request_total", "apiserver"),
                ("kube_pod_info", "objects"),
                ("kubelet_running_pods", "nodes"),
                ("pilothouse_manager_leads == 1", "controller-manager"),
            ):
                (found,) = prometheus.query(f"count by (job) ({metric})")
                assert found[0] == {"job": f"pilothouse-{job}"}

            async def all_ready() -> bool:
                ready = prometheus.query("pilothouse_pilot_database_ready == 1")
                told = {
                    (labels["pilot"], labels["pod"], labels["namespace"], labels["node"])
                    for labels, _ in ready
                }
                return told == {(name, name, "default", "n1") for name in names}

            await eventually(all_ready, seconds=60)
            (await plane.kubectl("delete", "pod", "cache-1")).ok()
            await scraped(names - {"cache-1"})
