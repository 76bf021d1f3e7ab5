"""A Postgres with a replication slot that no client reads: the policy asks, names the slot, and does nothing by itself; without the slot the question is withdrawn."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from tests.end_to_end.test_the_cause_of_latency_is_found import EXAMPLE, SECONDS, Json, Orders
from tests.kit.control_planes import UpPlane
from tests.kit.waiting import eventually
from tests.node.volumes.conftest import needed

from pilothouse.supervise import cgroups

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]

RULE = "orders-wal-wal-held"
POLICY = {
    "apiVersion": "autopilot.libopenstorage.org/v1alpha1",
    "kind": "ApplicationPolicy",
    "metadata": {"name": "orders-wal"},
    "spec": {
        "application": "postgres",
        "selector": {"matchLabels": {"app": "orders"}},
        "policies": [{"name": "wal-held", "parameters": {"held": "1Mi"}}],
    },
}


@pytest.fixture
def plane(tmp_path: Path) -> Iterator[UpPlane]:
    if os.geteuid() != 0:
        pytest.skip("it makes and mounts filesystems, which only root may")
    needed("postgres", "prometheus-postgres-exporter")
    if why := cgroups.find("pilothouse/test").unavailable.get("io"):
        pytest.skip(f"this machine limits no I/O: {why}")
    with UpPlane(tmp_path) as running:
        yield running


async def test_an_idle_slot_is_named_in_a_question_until_it_is_dropped(plane: UpPlane) -> None:
    orders = Orders(plane)
    objects = [each for each in yaml.safe_load_all(EXAMPLE.read_text()) if each["kind"] != POLICY["kind"]]
    await orders.kubectl("apply", "-f", "-", stdin="\n---\n".join(map(json.dumps, [*objects, POLICY])))

    async def expanded() -> Json | None:
        found = (await orders.json("autopilotrules"))["items"]
        return next((each for each in found if each["metadata"]["name"] == RULE), None)

    rule = await eventually(expanded, seconds=SECONDS)
    assert rule["spec"]["enforcement"] == "approvalRequired"

    # The same rule is followed, only quicker: a policy would reset it.
    async def alone() -> bool:
        return not (await orders.json("autopilotrules"))["items"]

    await orders.kubectl("delete", "applicationpolicy", "orders-wal")
    await eventually(alone, seconds=SECONDS)
    spec = {**rule["spec"], "pollInterval": 5}
    spec["conditions"] = {**spec["conditions"], "for": 5}
    quicker = {
        **{name: rule[name] for name in ("apiVersion", "kind")},
        "metadata": {"name": RULE},
        "spec": spec,
    }
    await orders.kubectl("apply", "-f", "-", stdin=json.dumps(quicker))

    await orders.ready()
    orders.query("select pg_create_physical_replication_slot('standby', true)")
    orders.query("create table rows as select generate_series(1, 100000) as number")

    async def questions() -> list[str]:
        found = (await orders.json("actionapprovals"))["items"]
        previews = [one for each in found for one in (each.get("status") or {}).get("actionPreviews") or ()]
        return [one["expectedResult"]["Message"] for one in previews]

    (asked,) = await eventually(questions, seconds=SECONDS)
    assert "volume/resize of default/data-orders-0 from 512Mi" in asked
    assert asked.endswith("because of slot_name standby")

    orders.query("select pg_drop_replication_slot('standby')")

    async def withdrawn() -> bool:
        found = (await orders.json("actionapprovals"))["items"]
        return [each["spec"]["approvalState"] for each in found] == ["canceled"]

    await eventually(withdrawn, seconds=SECONDS)
    assert await orders.actions() == []
    claim = await orders.json("pvc", "data-orders-0")
    assert claim["spec"]["resources"]["requests"]["storage"] == "512Mi"
