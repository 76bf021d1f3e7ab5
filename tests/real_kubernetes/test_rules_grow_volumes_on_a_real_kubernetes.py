"""Rules on a real Kubernetes: our node's volume is filled and grown, by a manager beside Kubernetes' own."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.cli.running import pilothouse
from tests.kit.managers import started
from tests.kit.network_namespaces import missing
from tests.kit.tools import MissingTool, find
from tests.kit.waiting import eventually
from tests.real_kubernetes.plane import RealPlane, kubernetes
from tests.real_kubernetes.test_volumes_are_made_grown_and_deleted import CLAIM, CLASS, POD

pytestmark = [pytest.mark.long, pytest.mark.etcd, pytest.mark.skipif(bool(missing()), reason=missing())]

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealPlane]:
    try:
        find("mkfs.xfs")
    except MissingTool as lacking:
        pytest.skip(str(lacking))
    with kubernetes(tmp_path_factory.mktemp("kubernetes")) as plane:
        yield plane


@contextmanager
def managed(real: RealPlane) -> Iterator[None]:
    """Our controllers, beside Kubernetes' own."""
    process = started(real.target.kubeconfig, real.folder, "--no-leader-elect")
    try:
        yield
    finally:
        process.end(seconds=5)


async def shown(real: RealPlane, *what: str) -> Any:
    return json.loads((await real.kubectl("get", *what, "-o", "json")).ok())


async def test_a_volume_that_is_half_full_grows(real: RealPlane) -> None:
    """With our kinds as definitions, and the roles of the example."""
    crds = pilothouse("crds")
    (await real.kubectl("apply", "--server-side", "-f", "-", stdin=crds.stdout)).ok()
    await real.kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=60s")
    (await real.kubectl("apply", "-f", str(EXAMPLES / "kubernetes" / "rules.yaml"))).ok()
    with managed(real):
        await filled_and_grown(real)


async def filled_and_grown(real: RealPlane) -> None:
    labelled = {**CLAIM, "metadata": {"name": "data", "labels": {"app": "postgres"}}}
    for body in (CLASS, labelled, POD):
        (await real.kubectl("apply", "-f", "-", stdin=json.dumps(body))).ok()
    (await real.kubectl("wait", "--for=condition=Ready", "pod/db", "--timeout=60s")).ok()
    rule = yaml.safe_load((EXAMPLES / "postgres-rule.yaml").read_text())
    (await real.kubectl("apply", "-f", "-", stdin=json.dumps(rule))).ok()
    filling = "head -c 200000000 /dev/zero >/data/rows"
    (await real.kubectl("exec", "db", "--", "sh", "-c", filling)).ok()

    async def grown() -> bool:
        return bool((await shown(real, "pvc", "data"))["status"]["capacity"] == {"storage": "480Mi"})

    await eventually(grown, seconds=120)

    async def recorded() -> bool:
        actions = (await shown(real, "applicationactions"))["items"]
        return [each.get("status", {}).get("phase") for each in actions] == ["Succeeded"]

    await eventually(recorded, seconds=60)
    claim = await shown(real, "pvc", "data", "--show-managed-fields")
    managers = [each["manager"] for each in claim["metadata"]["managedFields"]]
    assert "pilothouse-volume-resize" in managers
    [container] = (await shown(real, "pod", "db"))["status"]["containerStatuses"]
    assert container["restartCount"] == 0
