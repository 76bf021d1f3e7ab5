"""The nodes of a cluster, each with its pod and its Pilot.

    nodes = list_nodes(cluster, pools, sets, world)
    [node.name for node in nodes if not node.is_up]

A node is *up* if both its pod and its Pilot are ready. It is *settled* if it also runs the configuration of
its Pilot's spec, and the version that its pod was created for. It is *down* if neither pod nor Pilot is
ready: then a restart makes nothing unavailable. A node that has served and still runs is not down but *out of
touch*, as all are while they elect another master: it may have the last copy of a shard.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from pilothouse.api.kind_names import Pilot, Pod
from pilothouse.api.navigator.clusters import MOST_REPLICAS
from pilothouse.api.navigator.conditions import OUT_OF_TOUCH
from pilothouse.api.navigator.configurations import configuration_hash, in_force
from pilothouse.api.navigator.labels import TEMPLATE, VERSION
from pilothouse.api.objects import Object
from pilothouse.api.pod_health import healthy, trouble
from pilothouse.base.rfc3339 import parse_time
from pilothouse.controllers.elasticsearch.desired.pool_stateful_set import annotation_of
from pilothouse.controllers.elasticsearch.desired.pools import Pool
from pilothouse.controllers.elasticsearch.observed.database_container import (
    IMAGE_REASONS,
    cannot_have_run,
    has_run,
    running_since,
    with_flags,
)
from pilothouse.controllers.stateful_sets.pod_identity import ordinal_of
from pilothouse.meta.versions import Version
from pilothouse.runtime.snapshot import Snapshot


class ClusterNode(msgspec.Struct, frozen=True):
    """One node of a pool: one that its set asks for, or one that exists."""

    pool: Pool
    ordinal: int
    name: str
    pod: Object | None
    pilot: Object | None
    leaving: bool = False
    """Its set is scaled below its ordinal."""
    due_for: str = ""
    """The version of its next pod, if it has had a pod, maybe of that version, and has none."""

    @property
    def is_up(self) -> bool:
        return (
            self.pod is not None
            and healthy(self.pod)
            and self.pilot is not None
            and self.pilot.is_true("Ready")
        )

    @property
    def is_down(self) -> bool:
        serves = self.pilot is not None and self.pilot.is_true("Ready")
        return not serves and not self.is_out_of_touch and (self.pod is None or not healthy(self.pod))

    @property
    def is_out_of_touch(self) -> bool:
        """Its database runs and has served, but does not answer, or its pilot does not report."""
        if self.pod is None or self.pilot is None or not _runs(self.pod):
            return False
        condition: Mapping[str, Any] = self.pilot.condition("Ready") or {}
        if condition.get("status") == "Unknown":
            return self.pilot.status.get("phase") == "Running"
        return condition.get("reason") == OUT_OF_TOUCH

    @property
    def made_for(self) -> str:
        """The version that its pod was created for."""
        return self.pod.annotations.get(VERSION, "") if self.pod is not None else ""

    @property
    def has_run(self) -> bool:
        """Whether the database of its pod has started at least once."""
        return self.pod is not None and has_run(self.pod)

    @property
    def cannot_have_run(self) -> bool:
        """Whether the database of its pod certainly never started (``database_container``)."""
        return self.pod is not None and cannot_have_run(self.pod)

    @property
    def template(self) -> str:
        """The hash of its pod's template."""
        return self.pod.annotations.get(TEMPLATE, "") if self.pod is not None else ""

    @property
    def version(self) -> str:
        """The version that its pilot reports."""
        if self.pilot is None:
            return ""
        return str(
            self.pilot.at("status", "elasticsearch", "version") or self.pilot.at("status", "version") or ""
        )

    @property
    def has_wrong_image(self) -> bool:
        """Whether it serves with an earlier version than its pod's: the image is not what its tag says."""
        return self.is_up and self.served_earlier_version

    @property
    def served_earlier_version(self) -> bool:
        """Whether it serves with an earlier version than its pod's, or did until the pod was deleted."""
        if self.pod is None or self.pilot is None or not (self.version and self.made_for and self.started):
            return False
        ready: Mapping[str, Any] = self.pilot.condition("Ready") or {}
        started = parse_time(self.started)
        turned = parse_time(ready.get("lastTransitionTime") or self.started)
        # A report from an earlier pod says nothing about this one; its version may stay while this one
        # starts.
        # Once a pod is deleted, its containers are not started again, which could be with another image.
        has_served = self.is_up or (self.pod.deleting and (ready.get("status") == "True" or turned > started))
        # The top-level version is reported with the start, the other when the database answers.
        reported = (self.version, str(self.pilot.status.get("version") or "0"))
        is_earlier = max(map(Version.parse, reported)) < Version.parse(self.made_for)
        return has_served and started >= self.pod.created and is_earlier

    @property
    def not_ready_message(self) -> str:
        """Why it is not ready, from its Pilot; empty if the Pilot does not say."""
        condition: Mapping[str, Any] = (
            self.pilot.condition("Ready") if self.pilot is not None else None
        ) or {}
        if condition.get("status") not in ("False", "Unknown"):
            return ""
        return str(condition.get("message") or condition.get("reason") or "")

    @property
    def documents(self) -> int | None:
        """How many documents it holds, as it reports; None if it does not."""
        found = self.pilot.at("status", "elasticsearch", "documents") if self.pilot is not None else None
        return found if isinstance(found, int) else None

    @property
    def started(self) -> str:
        """When its process was last started, from its Pilot."""
        return str(self.pilot.at("status", "lastStartedTime") or "") if self.pilot is not None else ""

    @property
    def runs_its_configuration(self) -> bool:
        """Whether it runs the cluster's configuration, or an edit of it that it was started with."""
        if self.pilot is None:
            return False
        running = self.pilot.at("status", "configuration", "hash")
        expected = in_force(self.pilot.spec, self.pilot.annotations)
        return running in (expected, configuration_hash(self.pilot.spec))

    @property
    def is_decommissioned(self) -> bool:
        """Whether it reports that it is empty, for the current decommission."""
        if self.pilot is None or not self.pilot.spec.get("decommission"):
            return False
        condition: Mapping[str, Any] = self.pilot.condition("Decommissioned") or {}
        return (
            condition.get("status") == "True" and condition.get("observedGeneration") == self.pilot.generation
        )

    def down_for(self, now: float) -> float:
        """For how many seconds its pod has existed without being ready; 0 if that is not so."""
        if self.pod is None or self.pod.deleting or not self.is_down:
            return 0.0
        since = (self.pod.condition("Ready") or {}).get("lastTransitionTime")
        return max(0.0, now - (parse_time(since) if since else self.pod.created))

    def broken_for(self, now: float) -> float:
        """For how many seconds it has not become ready with the template of its pod.

        If its process runs, since that was started: a slow start does not count as broken because of an
        earlier outage.
        """
        down = self.down_for(now)
        since = running_since(self.pod) if self.pod is not None else None
        return down if since is None else min(down, max(0.0, now - since))

    def out_of_touch_for(self, now: float) -> float:
        """For how many seconds it has been out of touch; 0 if it is not."""
        if self.pilot is None or not self.is_out_of_touch:
            return 0.0
        since = (self.pilot.condition("Ready") or {}).get("lastTransitionTime")
        return max(0.0, now - parse_time(since)) if since else 0.0

    def why_unsettled(self, stateful_set: Object | None) -> str:
        """Why it is not settled; empty if it is."""
        if self.pod is None:
            return f"pod {self.name} does not exist"
        if not healthy(self.pod):
            why = trouble(self.pod)
            # The pilot of a running pod knows more than the probe.
            if why.reason == "PodNotReady" and self.not_ready_message:
                return f"{self.name} is not ready: {self.not_ready_message}"
            return with_flags(why.sentence) if why.reason in IMAGE_REASONS else why.sentence
        if self.pilot is None:
            return f"{self.name} has no Pilot yet"
        if not self.pilot.is_true("Ready"):
            return f"{self.name} is not ready: {self.not_ready_message or 'its pilot has not reported yet'}"
        if not self.runs_its_configuration:
            return f"{self.name} does not run with its latest configuration yet"
        if self.made_for and not self._has_reached(self.made_for):
            return (
                f"{self.name} reports version {self.version or 'none'}, but its pod was created for "
                f"{self.made_for}"
            )
        if stateful_set is not None and self.is_due(stateful_set):
            return f"pod {self.name} is about to be replaced"
        return ""

    def _has_reached(self, version: str) -> bool:
        """An image may hold a later version than its tag says; waiting would not change that."""
        return bool(self.version) and Version.parse(self.version) >= Version.parse(version)

    def is_due(self, stateful_set: Object) -> bool:
        """True if its set may replace its pod and has not done so yet."""
        rolling = stateful_set.at("spec", "updateStrategy", "rollingUpdate")
        if rolling is None or self.pod is None:
            return False
        return self.ordinal >= int(rolling.get("partition") or 0) and self.template != annotation_of(
            stateful_set, TEMPLATE
        )


def list_nodes(
    cluster: Object, pools: Mapping[str, Pool], sets: Mapping[str, Object], world: Snapshot
) -> tuple[ClusterNode, ...]:
    """By pool and ordinal: the nodes that the sets ask for, and those that still exist."""
    nodes: list[ClusterNode] = []
    for pool in pools.values():
        stateful_set = sets.get(pool.name)
        if stateful_set is None:
            continue
        pods = _by_ordinal(stateful_set, world.owned(Pod, stateful_set))
        # Others can scale a set too, beyond what a pool may have.
        wanted = range(min(int(stateful_set.spec.get("replicas", 1)), MOST_REPLICAS))
        for ordinal in sorted({*wanted, *pods}):
            name = f"{stateful_set.name}-{ordinal}"
            pilot = world.find(Pilot, cluster.namespace, name)
            if pilot is not None and not pilot.owned_by(cluster):
                pilot = None
            pod = pods.get(ordinal)
            due_for = _due_for(stateful_set, ordinal) if pod is None and pilot is not None else ""
            nodes.append(ClusterNode(pool, ordinal, name, pod, pilot, ordinal not in wanted, due_for))
    return tuple(nodes)


def _due_for(stateful_set: Object, ordinal: int) -> str:
    """The version of the next pod of this ordinal; empty if it gets an earlier template."""
    partition = int(stateful_set.at("spec", "updateStrategy", "rollingUpdate", "partition") or 0)
    return annotation_of(stateful_set, VERSION) if ordinal >= partition else ""


def _runs(pod: Object) -> bool:
    """Whether a pod runs, and none of its containers waits for a restart."""
    states = [each.get("state") or {} for each in pod.status.get("containerStatuses") or ()]
    return pod.status.get("phase") == "Running" and not any(
        "waiting" in each or "terminated" in each for each in states
    )


def _by_ordinal(stateful_set: Object, pods: Iterable[Object]) -> dict[int, Object]:
    found = {ordinal_of(stateful_set.name, pod.name): pod for pod in pods}
    return {ordinal: pod for ordinal, pod in found.items() if ordinal is not None}
