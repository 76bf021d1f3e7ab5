"""Two tiers of files on a node and rules about their StoragePools: the small one grows, and takes a volume of the full one."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.kit.control_planes import UpPlane
from tests.kit.waiting import eventually
from tests.node.volumes.conftest import needed

from pilothouse.api.local_volumes import LOOP
from pilothouse.api.openstorage.actions import EXPAND_POOL, REBALANCE_POOL

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]

Json = dict[str, Any]
SECONDS = 180.0
AUTOPILOT = "autopilot.libopenstorage.org/v1alpha1"
SLOW_CLASS = {
    "apiVersion": "storage.k8s.io/v1",
    "kind": "StorageClass",
    "metadata": {"name": "slow"},
    "provisioner": LOOP,
    "volumeBindingMode": "WaitForFirstConsumer",
    "parameters": {"tier": "slow", "fsType": "ext4"},
}
BRIEF = {
    "apiVersion": "storage.k8s.io/v1",
    "kind": "VolumeAttributesClass",
    "metadata": {"name": "brief"},
    "driverName": LOOP,
    "parameters": {"tier": "slow", "keep": "1s"},
}
"""After a move, the old copy goes soon, so that its pool has the room again."""
PROGRAM = """
test -f /data/made || echo "made by $(hostname)" > /data/made
trap 'exit 0' TERM
while :; do sleep 0.1; done
"""
CONTAINER = {
    "name": "sh",
    "image": "host/sh",
    "command": ["sh", "-c", PROGRAM],
    "volumeMounts": [{"name": "data", "mountPath": "/data"}],
}
CLAIM = {
    "metadata": {"name": "data"},
    "spec": {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "slow",
        "volumeAttributesClassName": "brief",
        "resources": {"requests": {"storage": "80Mi"}},
    },
}
PODS = {
    "apiVersion": "apps/v1",
    "kind": "StatefulSet",
    "metadata": {"name": "db"},
    "spec": {
        "serviceName": "db",
        "replicas": 2,
        "podManagementPolicy": "Parallel",
        "selector": {"matchLabels": {"app": "db"}},
        "template": {
            "metadata": {"labels": {"app": "db"}},
            "spec": {"terminationGracePeriodSeconds": 5, "containers": [CONTAINER]},
        },
        "volumeClaimTemplates": [CLAIM],
    },
}


def rule(name: str, tier: str, expression: Json, action: str, **spec: Any) -> Json:
    params = spec.pop("params", {})
    return {
        "apiVersion": AUTOPILOT,
        "kind": "AutopilotRule",
        "metadata": {"name": name},
        "spec": {
            "selector": {"matchLabels": {"pilothouse.io/tier": tier}},
            "pollInterval": 1,
            "conditions": {"for": 1, "expressions": [expression]},
            "actions": [{"name": action, "params": params}],
            "actionsCoolDownPeriod": 3600,
            **spec,
        },
    }


GROWS = rule(
    "grows",
    "fast",
    {"key": "px_pool_stats_total_bytes / 1048576", "operator": "Lt", "values": ["100"]},
    EXPAND_POOL,
    params={"scalepercentage": "300", "scaletype": "resize-disk"},
)
EVENS = rule(
    "evens",
    "slow",
    {"keyAlias": "PoolProvDeviationPerc", "operator": "NotInRange", "values": ["-100", "20"]},
    REBALANCE_POOL,
    enforcement="approvalRequired",
)
"""Above 20 points only: the two tiers are compared with the disk of the machine, which is hardly provisioned."""


class Pools:
    def __init__(self, plane: UpPlane) -> None:
        self.plane = plane

    async def kubectl(self, *words: str, stdin: str = "") -> str:
        return (await self.plane.kubectl(*words, stdin=stdin)).ok()

    async def apply(self, *objects: Json) -> None:
        text = json.dumps({"apiVersion": "v1", "kind": "List", "items": objects})
        await self.kubectl("apply", "-f", "-", stdin=text)

    async def json(self, *words: str) -> Json:
        found: Json = json.loads(await self.kubectl("get", *words, "-o", "json"))
        return found

    async def pool(self, tier: str, **status: str) -> None:
        """Wait until the tier's pool has these values in its status."""
        fields = [f"--for=jsonpath={{.status.{name}}}={value}" for name, value in status.items()]
        for field in fields:
            await self.kubectl("wait", field, f"storagepool/n1-{tier}", "--timeout=60s")

    async def both_ready(self) -> None:
        condition = "--for=jsonpath={.status.readyReplicas}=2"
        await self.kubectl("wait", condition, "statefulset/db", "--timeout=60s")

    async def about(self, kind: str, rule: str) -> list[Json]:
        """The records, approvals or actions of a rule; those of pools are in kube-system."""
        items = (await self.json(kind, "-n", "kube-system"))["items"]
        return [each for each in items if rule in each["metadata"]["name"]]

    async def succeeds(self, rule: str) -> Json:
        """The only action of a rule, once it has ended."""

        async def ended() -> Json | None:
            found = await self.about("applicationactions", rule)
            over = [each for each in found if (each.get("status") or {}).get("completionTime")]
            return over[0] if over else None

        done = await eventually(ended, seconds=SECONDS)
        assert done["status"]["phase"] == "Succeeded", done["status"]
        return done

    async def trial(self, rule: str) -> str:
        """The summary in the record, once a person is asked."""

        async def asked() -> Json | None:
            found = await self.about("autopilotruleobjects", rule)
            status: Json = (found[0].get("status") or {}) if found else {}
            return status if status.get("state") == "ActionAwaitingApproval" else None

        return str((await eventually(asked, seconds=SECONDS))["items"][-1]["message"])


@pytest.fixture
def plane(tmp_path: Path) -> Iterator[UpPlane]:
    if os.geteuid() != 0:
        pytest.skip("it makes and mounts filesystems, which only root may")
    needed("mkfs.ext4")
    for tier in ("fast", "slow"):
        (tmp_path / tier).mkdir(mode=0o700)
    tiers = (
        f"--tier=fast={tmp_path / 'fast'},size=50Mi",
        f"--tier=slow={tmp_path / 'slow'},size=200Mi",
    )
    with UpPlane(tmp_path, *tiers) as running:
        yield running


async def test_a_tier_grows_and_takes_a_volume_of_another(plane: UpPlane, tmp_path: Path) -> None:
    pools = Pools(plane)
    await pools.apply(SLOW_CLASS, BRIEF, PODS)
    await pools.both_ready()
    await pools.pool("slow", capacity="200Mi", provisioned="160Mi")
    await pools.pool("fast", capacity="50Mi", provisioned="0")

    await pools.apply(GROWS)
    grown = await pools.succeeds("grows")
    assert (grown["spec"]["target"], grown["status"]["after"]) == (
        {"from": "50Mi", "to": "200Mi"},
        {"capacity": "200Mi"},
    )
    await pools.pool("fast", capacity="200Mi")
    [kept] = plane.data.rglob("tier-sizes.json")
    assert json.loads(kept.read_bytes())["fast"] == {"folder": str(tmp_path / "fast"), "size": 200 << 20}

    # Nothing moves before a person has read what would.
    await pools.apply(EVENS)
    summary = await pools.trial("evens")
    assert "Rebalance summary: on node n1 " in summary
    assert "tier slow 80 -> 40 % provisioned" in summary
    assert "tier fast 0 -> 40 % provisioned" in summary
    assert len(files(tmp_path / "slow")) == 2
    assert await pools.about("applicationactions", "evens") == []
    [question] = await pools.about("actionapprovals", "evens")
    approved = json.dumps({"spec": {"approvalState": "approved"}})
    name = question["metadata"]["name"]
    await pools.kubectl("patch", "actionapproval", name, "-n", "kube-system", "--type=merge", "-p", approved)

    evened = await pools.succeeds("evens")
    claim, _, tier = evened["spec"]["target"]["moves"].partition("=")
    assert (tier, evened["status"]["after"]) == ("fast", {"moved": claim})
    assert f"{claim} (80Mi) slow -> fast" in summary
    for tier in ("slow", "fast"):
        await pools.pool(tier, capacity="200Mi", provisioned="80Mi")
    moved = await pools.json("pvc", claim.removeprefix("default/"))
    [there] = files(tmp_path / "fast")
    assert there.parent.name == moved["spec"]["volumeName"]
    assert len(files(tmp_path / "slow")) == 1
    await pools.both_ready()
    for number in range(2):
        made = await pools.kubectl("exec", f"db-{number}", "--", "cat", "/data/made")
        assert made == f"made by db-{number}\n"


def files(tier: Path) -> list[Path]:
    """The filesystems that a tier has."""
    return sorted(tier.glob("*/disk"))
