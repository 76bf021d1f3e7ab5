"""Rules on a real Kubernetes: a Postgres on our node is grown as it fills, by a manager beside Kubernetes' own."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from tests.cli.running import pilothouse
from tests.kit.growing_postgres import EXAMPLES, Postgres, rule
from tests.kit.managers import started
from tests.kit.network_namespaces import missing
from tests.kit.waiting import eventually
from tests.node.volumes.conftest import needed
from tests.real_kubernetes.plane import RealPlane, kubernetes
from tests.real_kubernetes.test_volumes_are_made_grown_and_deleted import CLASS

from pilothouse.api.openstorage.actions import RESIZE

pytestmark = [pytest.mark.long, pytest.mark.etcd, pytest.mark.skipif(bool(missing()), reason=missing())]


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealPlane]:
    needed("postgres", "psql", "mkfs.xfs")
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


async def install(real: RealPlane) -> None:
    """Our kinds as definitions, and the roles of the example."""
    crds = pilothouse("crds")
    (await real.kubectl("apply", "--server-side", "-f", "-", stdin=crds.stdout)).ok()
    await real.kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=60s")
    (await real.kubectl("apply", "-f", str(EXAMPLES / "kubernetes" / "rules.yaml"))).ok()


async def test_a_postgres_grows_step_by_step_and_does_not_notice(real: RealPlane) -> None:
    """With our kinds as definitions, the roles of the example, and the example's Postgres and rule."""
    await install(real)
    (await real.kubectl("apply", "-f", "-", stdin=json.dumps(CLASS))).ok()
    postgres = Postgres(real, "default", real.machine.inside)
    await postgres.start()
    with managed(real):
        (await real.kubectl("apply", "-f", str(EXAMPLES / "postgres-rule.yaml"))).ok()

        await postgres.grows_to_the_limit()

    claim = await shown(real, "pvc", "data-postgres-0", "--show-managed-fields")
    managers = [each["manager"] for each in claim["metadata"]["managedFields"]]
    assert "pilothouse-volume-resize" in managers
    [container] = (await shown(real, "pod", "postgres-0"))["status"]["containerStatuses"]
    assert container["restartCount"] == 0


async def test_a_rule_that_could_not_work_says_so(real: RealPlane) -> None:
    """Kubernetes stores what our server refuses."""
    await install(real)
    wrong = rule("wrong", "default", actions=[{"name": RESIZE, "params": {"scalepercentage": "0"}}])
    wrong["spec"]["conditions"]["expressions"] = [{"key": "sum(", "operator": "Gt", "values": ["50"]}]
    (await real.kubectl("apply", "-f", "-", stdin=json.dumps(wrong))).ok()

    async def told() -> dict[str, Any]:
        conditions = (await shown(real, "autopilotrule", "wrong")).get("status", {}).get("conditions", [])
        return next((each for each in conditions if each["type"] == "Ready"), {})

    with managed(real):
        ready = await eventually(told, seconds=60)
    assert (ready["status"], ready["reason"]) == ("False", "Invalid")
    assert "spec.conditions.expressions[0].key: " in ready["message"]
    assert "spec.actions[0].params.scalepercentage: " in ready["message"]
    (await real.kubectl("delete", "autopilotrule", "wrong")).ok()
