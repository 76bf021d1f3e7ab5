"""Rules on modelled storage pools in virtual time.

with PoolFleet() as fleet:
    fleet.create(
        pool_rule("grow", {"key": TOTAL, "operator": "Lt", "values": ["11"]}, scalepercentage="50"),
        pool("w1-fast", 10, case="grow"),
    )
    fleet.wait(600)
    fleet.capacity("w1-fast")        # 15.0
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from tests.kit.modelled_pools import GIB, ModelledPools
from tests.kit.rule_fleet import SPACE, RuleFleet, claim

from pilothouse.api.kind_names import (
    ActionApproval,
    ApplicationAction,
    AutopilotRule,
    PersistentVolume,
    PersistentVolumeClaim,
    StoragePool,
    VolumeAttributesClass,
)
from pilothouse.api.local_volumes import LOOP, NODE, PROVISIONED_BY
from pilothouse.api.objects import Object, Tree
from pilothouse.api.openstorage.actions import CLUSTER_WIDE_RECORDS, EXPAND_POOL
from pilothouse.rules.action_targets import bytes_of, capacity_of, size_text
from pilothouse.sim.fleet import OutsideWorld
from pilothouse.sim.simulated_server import ObservedWrite

TOTAL: Final = "px_pool_stats_total_bytes / 1073741824"
"""What a pool holds, in GiB."""
AVAILABLE: Final = "100 * px_pool_stats_available_bytes / px_pool_stats_total_bytes"
PROVISIONED: Final = "100 * px_pool_stats_provisioned_bytes / px_pool_stats_total_bytes"
_ASIDE: Final = re.compile("/(leases|events)(/|$)")
_RESTART: Final = 3.0
USED: Final = "100 * px_pool_stats_used_bytes / px_pool_stats_total_bytes"


def pool(name: str, gibibytes: float, *, case: str = "", expandable: bool = True) -> Tree:
    """A pool with the label ``case``; ``w1-fast`` is the tier ``fast`` of the node ``w1``."""
    node, _, tier = name.partition("-")
    return {
        "apiVersion": StoragePool.api_version,
        "kind": StoragePool.kind,
        "metadata": {"name": name, "labels": {"case": case or name}},
        "status": {
            "node": node,
            "tier": tier,
            "capacity": size_text(round(gibibytes * GIB)),
            "provisioned": "0",
            "used": "0",
            "expandable": expandable,
        },
    }


def pool_rule(name: str, *expressions: Tree, action: str = EXPAND_POOL, **params: str) -> Tree:
    """A rule as the vendor's tests have it, on pools with the label ``case: NAME``."""
    return {
        "apiVersion": AutopilotRule.api_version,
        "kind": AutopilotRule.kind,
        "metadata": {"name": name},
        "spec": {
            "selector": {"matchLabels": {"case": name}},
            "conditions": {"expressions": list(expressions), "for": 30},
            "pollInterval": 10,
            "actionsCoolDownPeriod": 60,
            "actions": [{"name": action, "params": params}],
        },
    }


class PoolFleet(RuleFleet):
    """A server, a manager and nodes with pools."""

    killed = False
    """Whether ``kill_after_write`` has killed the manager."""

    def outside(self) -> OutsideWorld:
        self.pools = ModelledPools(self.server.api("pools"), self.clock, self.volumes)
        return self.pools

    def create(self, *trees: Tree) -> None:
        for tree in trees:
            if tree["kind"] != StoragePool.kind:
                super().create(tree)
                continue
            super().create({name: value for name, value in tree.items() if name != "status"})
            status = {"status": tree["status"]}
            name = tree["metadata"]["name"]
            self._do(lambda api, name=name, status=status: api.patch(
                StoragePool, name, "", status, subresource="status"))  # type: ignore[misc]  # fmt: skip

    def attributes(self, name: str, **parameters: str) -> dict[str, str]:
        """The parameters of a VolumeAttributesClass, which is made."""
        self._do(lambda api: api.create(VolumeAttributesClass, {
            "metadata": {"name": name}, "driverName": LOOP, "parameters": parameters}))  # fmt: skip
        return parameters

    def volume(self, name: str, gibibytes: int, *, node: str = "w1", attributes: str = "") -> None:
        """A volume in the default tier of a node, and its claim, which is full."""
        volume = {
            "metadata": {"name": f"pv-{name}", "annotations": {NODE: node, PROVISIONED_BY: LOOP}},
            "spec": {
                "capacity": {"storage": f"{gibibytes}Gi"},
                "accessModes": ["ReadWriteOnce"],
                "hostPath": {"path": f"/volumes/{name}"},
            },
        }
        self._do(lambda api: api.create(PersistentVolume, volume))
        wanted = claim(name, f"{gibibytes}Gi")
        wanted["spec"]["volumeName"] = f"pv-{name}"
        if attributes:
            wanted["spec"]["volumeAttributesClassName"] = attributes
        self.create(wanted)
        self.pools.written[name] = gibibytes

    def pool(self, name: str) -> Object:
        return self._do(lambda api: api.get(StoragePool, name))

    def size(self, name: str) -> int:
        """Of a claim, in bytes."""
        return capacity_of(self.claim(name))

    def patch_claim(self, name: str, **spec: str) -> None:
        self.patch(PersistentVolumeClaim, name, {"spec": spec}, SPACE)

    def capacity(self, name: str) -> float:
        """In GiB."""
        return bytes_of(self.pool(name).status["capacity"]) / GIB

    def provisioned(self, *names: str) -> list[float]:
        """Percent of each of these pools that volumes take."""
        statuses = [self.pool(name).status for name in names]
        return [100 * bytes_of(each["provisioned"]) / bytes_of(each["capacity"]) for each in statuses]

    def state_of(self, rule: str, pool: str) -> str:
        return str(self.objects()[f"{rule}/{pool}"].status["state"])

    def states_of(self, rule: str, pool: str) -> list[str]:
        """All states that the pool went through, the oldest first."""
        return [str(each["state"]) for each in self.objects()[f"{rule}/{pool}"].status["items"]]

    def steps(self, pool: str) -> list[str]:
        """The sizes that a pool was to have."""
        mine = [one for one in self.actions() if one.at("spec", "object", "name") == pool]
        return [str(one.at("spec", "target", "to")) for one in sorted(mine, key=lambda one: one.created)]

    def claims(self) -> Sequence[Object]:
        return self._do(lambda api: api.list(PersistentVolumeClaim, SPACE)).objects

    def approvals(self) -> Sequence[Object]:
        return self._do(lambda api: api.list(ActionApproval, CLUSTER_WIDE_RECORDS)).objects

    def answer(self, state: str) -> None:
        """Approve or decline the only approval."""
        (asked,) = self.approvals()
        fields = {"spec": {"approvalState": state}}
        self._do(lambda api: api.patch(ActionApproval, asked.name, asked.namespace, fields))

    def delete_approval(self) -> None:
        (asked,) = self.approvals()
        self._do(lambda api: api.delete(ActionApproval, asked.name, asked.namespace, uid=asked.uid))

    def delete_rule(self, name: str) -> None:
        self._do(lambda api: api.delete(AutopilotRule, name))

    def rules(self) -> Sequence[Object]:
        return self._do(lambda api: api.list(AutopilotRule)).objects

    def kill_after_write(self, number: int) -> None:
        """Kill the manager after the write of this number from now on, leases and events aside; it starts again in a while."""
        left, self.killed = number, False

        def heard(write: ObservedWrite) -> None:
            nonlocal left
            if self.killed or not write.agent.startswith(self.manager.name) or _ASIDE.search(write.path):
                return
            if left:
                left -= 1
                return
            self.killed = True
            self.manager.crash()
            self._loop.call_later(_RESTART, self.manager.start)

        self.heard = heard

    def phases(self) -> list[str]:
        found = self._do(lambda api: api.list(ApplicationAction)).objects
        return [str(one.status.get("phase")) for one in sorted(found, key=lambda one: one.created)]
