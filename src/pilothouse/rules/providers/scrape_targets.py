"""What is scraped, and which objects each target may report on.

    targets = ScrapeTargets(nodes.list, pods.list, claims.list)
    for target in targets.list(): ...
    target.owned(labels)            # with the target's own labels; None if they name what it does not own

Nodes are scraped, and pods that have a pilot or the annotations ``prometheus.io/scrape``, ``port``, ``path``
and ``scheme``. Of a pod in its node's network the port has to be one of its own containers': others may be
the node's. A pod may report on itself, on the claims that it mounts and on the cluster whose label it has,
a node on itself, its storage pools, its pods and their claims. Any other ``cluster`` on a page becomes
``exported_cluster``, as Prometheus renames labels that a target may not set.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final, Literal

import msgspec

from pilothouse.api.applications.registry import applications
from pilothouse.api.navigator.labels import HAS_PILOT
from pilothouse.api.objects import Object
from pilothouse.api.storage_pools import pool_owner
from pilothouse.rules.join import mounted_claims

PILOT_PORT: Final = 12001
_ANNOTATION: Final = "prometheus.io/"
_CLUSTER: Final = "cluster"
_NAMESPACES: Final = ("namespace", "exported_namespace")
_CLAIM: Final = "persistentvolumeclaim"
_OWNED: Final = (_CLAIM, "pod", "exported_pod")
_LONGEST_PATH: Final = 1024
_SCHEMES: Final = ("http", "https")

ObjectLister = Callable[[], Iterable[Object]]
Key = tuple[str, str]


class OwnershipChange(msgspec.Struct, frozen=True):
    """What a target owns and did not own before, or the other way round."""

    volumes: frozenset[str]
    claims: frozenset[Key]
    pods: frozenset[Key]
    nodes: frozenset[str]

    def concerns(self, labels: Mapping[str, str]) -> bool:
        """Whether a series with these labels, which was the target's own, may be another, or not its own."""
        if labels.get("volumename") in self.volumes or (self.nodes and "pool" in labels):
            return True
        for name in _OWNED:
            if value := labels.get(name):
                changed = self.claims if name == _CLAIM else self.pods
                for space in _NAMESPACES:
                    if changed and (labels.get(space, ""), value) in changed:
                        return True
        return False


class ScrapeTarget(msgspec.Struct, frozen=True):
    """A page of metrics."""

    id: str
    kind: Literal["node", "pod"]
    labels: Mapping[str, str]
    """That each of its series has."""
    url: str = ""
    """Empty for a node, which is reached through the API server."""
    cluster: str = ""
    """The cluster of a pod, in its namespace; empty if it is of none."""
    volumes: frozenset[str] = frozenset()
    claims: frozenset[Key] = frozenset()
    pods: frozenset[Key] = frozenset()
    nodes: frozenset[str] = frozenset()
    """All nodes, by whose names storage pools begin."""

    def owned(self, series: Mapping[str, str]) -> Mapping[str, str] | None:
        """The labels of a series with the target's own; None if it is about what the target does not own."""
        for name, value in self.labels.items():
            if series.get(name, value) != value:
                return None
        found = {**self.labels, **series}
        if (cluster := found.pop(_CLUSTER, "")) not in ("", self.cluster):
            found[f"exported_{_CLUSTER}"] = cluster
        if self.cluster:
            found[_CLUSTER] = self.cluster
        if (volume := found.get("volumename")) and volume not in self.volumes:
            return None
        if (pool := found.get("pool")) and not self._is_own_pool(pool):
            return None
        for name in _OWNED:
            if named := found.get(name):
                known = self.claims if name == _CLAIM else self.pods
                for space in _NAMESPACES:
                    if (namespace := found.get(space)) and (namespace, named) not in known:
                        return None
        return found

    def change_since(self, before: ScrapeTarget) -> OwnershipChange | None:
        """What it owns now and not before, or the other way round; None if there is more that differs."""
        same = msgspec.structs.replace(
            before, volumes=self.volumes, claims=self.claims, pods=self.pods, nodes=self.nodes
        )
        if same != self:
            return None
        return OwnershipChange(
            self.volumes ^ before.volumes,
            self.claims ^ before.claims,
            self.pods ^ before.pods,
            self.nodes ^ before.nodes,
        )

    def _is_own_pool(self, pool: str) -> bool:
        """Whether it is a storage pool of the target, or none: the memory pools of a JVM have the same
        label."""
        owner = pool_owner(pool, self.nodes.__contains__)
        return not owner or (self.kind == "node" and owner == self.labels["node"])


class _PodFacts(msgspec.Struct, frozen=True):
    version: str
    key: Key
    node: str
    cluster: str
    claims: tuple[Key, ...]
    urls: tuple[str, ...]
    ended: bool


class ScrapeTargets:
    """From caches of nodes, pods and claims. What was read from an object is kept until it changes."""

    def __init__(self, nodes: ObjectLister, pods: ObjectLister, claims: ObjectLister) -> None:
        self._nodes = nodes
        self._pods = pods
        self._claims = claims
        self._pod_facts: dict[str, _PodFacts] = {}
        self._volumes: dict[str, tuple[str, Key, str]] = {}

    def list(self) -> list[ScrapeTarget]:
        volumes = self._read_claims()
        on_node: dict[str, list[_PodFacts]] = {}
        pod_targets: list[ScrapeTarget] = []
        for facts in self._read_pods():
            if not facts.node:
                continue
            on_node.setdefault(facts.node, []).append(facts)
            if not facts.ended:
                pod_targets += _pod_targets(facts, volumes)
        nodes = frozenset(node.name for node in self._nodes())
        targets = [_node_target(name, on_node.get(name, []), volumes) for name in sorted(nodes)]
        return [msgspec.structs.replace(each, nodes=nodes) for each in targets + pod_targets]

    def _read_pods(self) -> Iterable[_PodFacts]:
        known, self._pod_facts = self._pod_facts, {}
        for pod in self._pods():
            facts = known.get(pod.uid)
            if facts is None or facts.version != pod.resource_version:
                facts = _pod_facts(pod)
            self._pod_facts[pod.uid] = facts
        return self._pod_facts.values()

    def _read_claims(self) -> Mapping[Key, str]:
        """The volume of each claim that is bound."""
        known, self._volumes = self._volumes, {}
        for claim in self._claims():
            found = known.get(claim.uid)
            if found is None or found[0] != claim.resource_version:
                bound = claim.at("status", "phase") == "Bound"
                found = claim.resource_version, claim.key, claim.spec.get("volumeName", "") if bound else ""
            self._volumes[claim.uid] = found
        return {key: volume for _, key, volume in self._volumes.values() if volume}


def _node_target(name: str, pods: list[_PodFacts], volumes: Mapping[Key, str]) -> ScrapeTarget:
    claims = frozenset(claim for pod in pods for claim in pod.claims)
    return ScrapeTarget(
        f"node/{name}",
        "node",
        {"node": name},
        volumes=frozenset(volumes[claim] for claim in claims if claim in volumes),
        claims=claims,
        pods=frozenset(pod.key for pod in pods),
    )


def _pod_targets(pod: _PodFacts, volumes: Mapping[Key, str]) -> list[ScrapeTarget]:
    namespace, name = pod.key
    claims = frozenset(pod.claims)
    return [
        ScrapeTarget(
            f"pod/{namespace}/{name} {url}",
            "pod",
            {"namespace": namespace, "pod": name, "node": pod.node},
            url=url,
            cluster=pod.cluster,
            volumes=frozenset(volumes[claim] for claim in claims if claim in volumes),
            claims=claims,
            pods=frozenset({pod.key}),
        )
        for url in pod.urls
    ]


def _pod_facts(pod: Object) -> _PodFacts:
    phase = pod.at("status", "phase", default="")
    return _PodFacts(
        pod.resource_version,
        pod.key,
        pod.spec.get("nodeName") or "",
        next((name for each in applications() if (name := pod.labels.get(each.cluster_label))), ""),
        tuple(mounted_claims(pod)),
        tuple(_urls(pod)) if phase == "Running" else (),
        phase in ("Succeeded", "Failed"),
    )


def _urls(pod: Object) -> Iterable[str]:
    address = pod.at("status", "podIP", default="")
    if not address:
        return
    host = f"[{address}]" if ":" in address else address
    annotations = pod.annotations
    port, path = annotations.get(f"{_ANNOTATION}port", ""), annotations.get(f"{_ANNOTATION}path", "/metrics")
    scheme = annotations.get(f"{_ANNOTATION}scheme", "http")
    annotated = annotations.get(f"{_ANNOTATION}scrape") == "true" and _is_port(port) and _owns(pod, port)
    # It is shown in messages and logs, where a line break could make up a line.
    fits = path.startswith("/") and path.isprintable() and len(path) <= _LONGEST_PATH
    if annotated and fits and scheme in _SCHEMES:
        yield f"{scheme}://{host}:{port}{path}"
    if HAS_PILOT in pod.labels and not (annotated and port == str(PILOT_PORT)):
        yield f"http://{host}:{PILOT_PORT}/metrics"


def _is_port(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 5 and 0 < int(text) < 65536


def _owns(pod: Object, port: str) -> bool:
    """Whether a port is the pod's: any is, unless it is in the network of its node."""
    if not pod.spec.get("hostNetwork"):
        return True
    return any(
        int(port) in (each.get("containerPort"), each.get("hostPort"))
        for container in pod.spec.get("containers") or ()
        for each in container.get("ports") or ()
    )
