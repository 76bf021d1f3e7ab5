"""The objects of each level in a fixed order, and how they are connected; built when a rule needs them.

    tables = LevelTables(lists)
    tables.table("pod").index                     # for ``join``
    tables.relation("volume", "device")           # by the series that the last poll had
    tables.changed(Pod, before, after)
    tables.refresh()                              # what was built from it is built anew

Objects say who owns whom, which claims a pod mounts and where it runs. The series ``pilothouse_volume_info``
says on which device, disk and tier of a node a volume is.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from itertools import pairwise
from typing import Any, Final

from pilothouse.api.kind_names import (
    Deployment,
    KindName,
    Node,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    StatefulSet,
    StoragePool,
)
from pilothouse.api.objects import Object
from pilothouse.rules.join import ObjectIndex, mounted_claims
from pilothouse.rules.join_labels import DEFAULT_LABELS, SeriesKey, first_label
from pilothouse.rules.level_relations import Relation, path
from pilothouse.rules.object_table import ObjectTable
from pilothouse.rules.object_types import WORKLOADS, is_present, kinds_of, types_of
from pilothouse.rules.samples import Sample

Lister = Callable[[KindName], Iterable[Object]]
Pairs = Iterable[tuple[int, int]]
Key = tuple[str, str]
Reference = tuple[str, str, str]
"""Kind, namespace and name of an object."""

_NOTHING: Final[Reference] = ("", "", "")
_CAPACITY: Final = ("status", "capacity", "storage")
_TEMPLATE_HASH: Final = "pod-template-hash"
_HOSTNAME: Final = "kubernetes.io/hostname"
_DEPENDENTS: Final[Mapping[KindName, tuple[str, ...]]] = {
    PersistentVolumeClaim: ("volume",),
    Pod: ("volume", "pod", "workload", "application"),
    StoragePool: ("storagepool", "device"),
    Node: ("node", "device"),
}
"""The levels whose tables are built from objects of a kind; those of other kinds are workloads' and above."""


class LevelTables:
    """The tables and relations of the objects in view."""

    def __init__(self, lists: Lister) -> None:
        self._lists = lists
        self._tables: dict[str, ObjectTable] = {}
        self._relations: dict[tuple[str, str], Relation] = {}
        self._stale: set[str] = set()
        """The levels whose tables are built anew at the next refresh."""
        self._info: dict[str, Sequence[Sample]] = {}
        """The series of ``pilothouse_volume_info``, by the provider."""

    def table(self, level: str) -> ObjectTable:
        if (known := self._tables.get(level)) is None:
            known = self._tables[level] = self._made(level)
        return known

    def held(self) -> LevelTables:
        """The same tables, which stay when they are forgotten here. Until then each is made once for both."""
        made = LevelTables(self._lists)
        made._tables, made._relations, made._info = self._tables, self._relations, self._info
        return made

    def refresh(self) -> bool:
        """Forget what was built from objects that have changed since; whether there was anything."""
        found = self._stale & self._tables.keys()
        if found:
            self._forget(found)
        self._stale.clear()
        return bool(found)

    def relation(self, source: str, target: str) -> Relation:
        """From the objects of one level to those of another."""
        if (known := self._relations.get((source, target))) is None:
            steps = path(source, target)
            if len(steps) == 2:
                known = self._adjacent(source, target)
            else:
                known = self.relation(*steps[:2])
                for step in pairwise(steps[1:]):
                    known = known.then(self.relation(*step))
            self._relations[source, target] = known
        return known

    def reached(self, source: str, uid: str, target: str) -> list[Object]:
        """The objects of a level to which one of another leads."""
        position = self.table(source).position.get(uid)
        if position is None:
            return []
        if source == target:
            return [self.table(source).objects[position]]
        objects = self.table(target).objects
        return [objects[each] for each in self.relation(source, target).of_first(position)]

    def inform(self, provider: str, samples: Sequence[Sample]) -> None:
        """Take the series of ``pilothouse_volume_info`` that a provider has."""
        known = self._info.get(provider)
        if known is not None and [one.labels for one in known] == [one.labels for one in samples]:
            return
        self._info = {**self._info, provider: samples}
        self._forget({"device"})

    def changed(self, kind: KindName, before: Object | None, after: Object | None) -> None:
        """Note that what was built from an object is out of date, if it matters what has changed."""
        if before is None and after is None:
            return
        levels = _DEPENDENTS.get(kind, ("workload", "application"))
        if before is not None and after is not None:
            if kind == Pod:
                levels = _levels_of_pod(before, after)
            elif _identity(before) == _identity(after):
                volumes = self._tables.get("volume")
                if (
                    kind == PersistentVolumeClaim
                    and volumes is not None
                    and before.at(*_CAPACITY) != after.at(*_CAPACITY)
                ):
                    volumes.resized(after)
                return
        self._stale.update(levels)

    def namespace_changed(self, before: Object | None, after: Object | None) -> None:
        if before is not None and after is not None and before.labels == after.labels:
            return
        if before is not None or after is not None:
            self._stale.update(self._tables)

    def volume_changed(self, before: Object | None, after: Object | None) -> None:
        """A PersistentVolume says on which node it is, and this never changes."""
        if (before is None) != (after is None):
            self._stale.add("volume")

    def _forget(self, levels: Set[str]) -> None:
        self._tables = {level: table for level, table in self._tables.items() if level not in levels}
        self._relations = {}

    def _made(self, level: str) -> ObjectTable:
        if level == "volume":
            return ObjectTable.of_claims(self._sorted(level), tuple(self._lists(Pod)))
        if level == "device":
            return self._devices()
        objects = self._sorted(level)
        places: dict[SeriesKey, dict[int, None]] = defaultdict(dict)
        for position, one in enumerate(objects):
            places[_key_of(one)][position] = None
        if level == "pod":
            for position, pod in enumerate(objects):
                for claim in mounted_claims(pod):
                    places["claim", *claim][position] = None
                if node := pod.spec.get("nodeName"):
                    places["node", node][position] = None
        elif level in ("workload", "application"):
            self._place_parts(level, objects, places)
        found = {key: tuple(each) for key, each in places.items()}
        return ObjectTable(objects, ObjectIndex(objects, found, level))

    def _sorted(self, level: str) -> list[Object]:
        found = [one for kind in kinds_of(level) for one in self._lists(kind)]
        if level == "application":
            found = [one for one in found if "application" in types_of(one)]
        return sorted(found, key=lambda one: (one.key, one.kind))

    def _place_parts(
        self, level: str, objects: Sequence[Object], places: dict[SeriesKey, dict[int, None]]
    ) -> None:
        """Series of its pods, of their claims and, for an application, of its workloads are about it."""
        owner_of = {_reference(one): position for position, one in enumerate(objects)}
        if level == "application":
            for workload in self._sorted("workload"):
                position = owner_of.get(_reference(workload), owner_of.get(_owner(workload)))
                if position is not None:
                    places[_key_of(workload)][position] = None
                    owner_of.setdefault(_reference(workload), position)
        for pod in self._lists(Pod):
            position = owner_of.get(workload_of(pod))
            if position is not None:
                places["pod", pod.namespace, pod.name][position] = None
                for claim in mounted_claims(pod):
                    places["claim", *claim][position] = None

    def _devices(self) -> ObjectTable:
        """Devices are no objects: series and StoragePools name them."""
        found: dict[Key, None] = {}
        for one in self._samples():
            found.update(dict.fromkeys(_devices_of(one)))
        for pool in self._lists(StoragePool):
            found.update(dict.fromkeys(_device_of(pool)))
        keys = sorted(found)
        addresses = {node.name: _addresses(node) for node in self._lists(Node)}
        places: dict[SeriesKey, Sequence[int]] = {}
        for position, (node, device) in enumerate(keys):
            for machine in (node, *addresses.get(node, ())):
                places["device", machine, device] = (position,)
        names = [f"{node}/{device}" for node, device in keys]
        return ObjectTable((), _DeviceIndex(len(keys), places), names)

    def _samples(self) -> Iterable[Sample]:
        return (one for each in self._info.values() for one in each)

    def _adjacent(self, source: str, target: str) -> Relation:
        known = self._relations.get((target, source))
        if known is not None:
            return known.reversed()
        make = _STEPS.get((source, target))
        if make is not None:
            return Relation.of(make(self))
        return Relation.of(_STEPS[target, source](self)).reversed()

    def _applications_workloads(self) -> Pairs:
        applications, workloads = self.table("application"), self.table("workload").objects
        places = {_reference(one): number for number, one in enumerate(applications.objects)}
        for number, workload in enumerate(workloads):
            place = places.get(_reference(workload), places.get(_owner(workload)))
            if place is not None:
                yield place, number

    def _workloads_pods(self) -> Pairs:
        places = {_reference(one): number for number, one in enumerate(self.table("workload").objects)}
        for number, pod in enumerate(self.table("pod").objects):
            if (place := places.get(workload_of(pod))) is not None:
                yield place, number

    def _pods_volumes(self) -> Pairs:
        places = self.table("volume").index.places
        for number, pod in enumerate(self.table("pod").objects):
            if is_present(pod):
                for claim in mounted_claims(pod):
                    yield from ((number, place) for place in places.get(("claim", *claim), ()))

    def _pods_nodes(self) -> Pairs:
        places = self.table("node").index.places
        for number, pod in enumerate(self.table("pod").objects):
            yield from ((number, place) for place in places.get(("node", pod.spec.get("nodeName") or ""), ()))

    def _volumes_nodes(self) -> Pairs:
        """By the PersistentVolume, else by the pods that mount it."""
        nodes, volumes = self.table("node").index.places, self.table("volume")
        local: set[int] = set()
        for one in self._lists(PersistentVolume):
            for place in volumes.index.places.get(("volume", one.name), ()):
                for name in _node_names(one):
                    local.add(place)
                    yield from ((place, node) for node in nodes.get(("node", name), ()))
        mounted = self.relation("volume", "pod").then(self.relation("pod", "node"))
        pairs = zip(mounted.first.tolist(), mounted.second.tolist(), strict=True)
        yield from (pair for pair in pairs if pair[0] not in local)

    def _volumes_devices(self) -> Pairs:
        places = {key: number for number, key in enumerate(map(_split, self.table("device").names))}
        for one, place in self._informed():
            yield from ((place, places[key]) for key in _devices_of(one) if key in places)

    def _volumes_pools(self) -> Pairs:
        pools = self.table("storagepool").index.places
        for one, place in self._informed():
            yield from ((place, pool) for pool in pools.get(("pool", _pool_of(one)), ()))

    def _informed(self) -> Iterable[tuple[Sample, int]]:
        volumes = self.table("volume").index.places
        for one in self._samples():
            for key in (
                ("volume", one.labels.get("volumename", "")),
                ("claim", first_label(one.labels, DEFAULT_LABELS.namespace),
                 one.labels.get("persistentvolumeclaim", "")),
            ):  # fmt: skip
                if (found := volumes.get(key)) is not None:
                    yield from ((one, place) for place in found)
                    break

    def _pools_devices(self) -> Pairs:
        devices = {key: number for number, key in enumerate(map(_split, self.table("device").names))}
        pools = self.table("storagepool")
        for number, pool in enumerate(pools.objects):
            yield from ((number, devices[key]) for key in _device_of(pool) if key in devices)
        for one in self._samples():
            for number in pools.index.places.get(("pool", _pool_of(one)), ()):
                disk = one.labels.get("node", ""), one.labels.get("disk", "")
                yield from ((number, devices[key]) for key in (disk,) if key in devices)

    def _pools_nodes(self) -> Pairs:
        nodes = self.table("node").index.places
        for number, pool in enumerate(self.table("storagepool").objects):
            name = pool.at("status", "node", default="")
            yield from ((number, node) for node in nodes.get(("node", name), ()))

    def _devices_nodes(self) -> Pairs:
        nodes = self.table("node").index.places
        for number, (node, _) in enumerate(map(_split, self.table("device").names)):
            yield from ((number, place) for place in nodes.get(("node", node), ()))


_STEPS: Final[Mapping[tuple[str, str], Callable[[LevelTables], Pairs]]] = {
    ("application", "workload"): LevelTables._applications_workloads,
    ("workload", "pod"): LevelTables._workloads_pods,
    ("pod", "volume"): LevelTables._pods_volumes,
    ("pod", "node"): LevelTables._pods_nodes,
    ("volume", "node"): LevelTables._volumes_nodes,
    ("volume", "device"): LevelTables._volumes_devices,
    ("volume", "storagepool"): LevelTables._volumes_pools,
    ("storagepool", "device"): LevelTables._pools_devices,
    ("storagepool", "node"): LevelTables._pools_nodes,
    ("device", "node"): LevelTables._devices_nodes,
}


class _DeviceIndex(ObjectIndex):
    """The index of a level that has no objects."""

    def __init__(self, count: int, places: Mapping[SeriesKey, Sequence[int]]) -> None:
        super().__init__((), places, "device")
        self._count = count

    def __len__(self) -> int:
        return self._count


def workload_of(pod: Object) -> Reference:
    """The StatefulSet or Deployment of a pod."""
    owner = pod.controller
    if owner is None:
        return _NOTHING
    kind, name = str(owner.get("kind", "")), str(owner.get("name", ""))
    # A Deployment owns it through a ReplicaSet, whose name ends with the hash of the template.
    template = pod.labels.get(_TEMPLATE_HASH, "")
    if kind == "ReplicaSet" and template and name.endswith(f"-{template}"):
        return Deployment.kind, pod.namespace, name.removesuffix(f"-{template}")
    return (kind, pod.namespace, name) if kind == StatefulSet.kind else _NOTHING


def _reference(one: Object) -> Reference:
    return one.kind, one.namespace, one.name


def _owner(one: Object) -> Reference:
    owner = one.controller
    return (str(owner.get("kind", "")), one.namespace, str(owner.get("name", ""))) if owner else _NOTHING


def _key_of(one: Object) -> SeriesKey:
    """What series call an object itself."""
    if one.noun == Pod:
        return "pod", one.namespace, one.name
    if one.noun in WORKLOADS:
        return one.kind.lower(), one.namespace, one.name
    if one.noun in (Node, StoragePool):
        return "node" if one.noun == Node else "pool", one.name
    return "cluster", one.namespace, one.name


def _identity(one: Object) -> object:
    """What tables and relations are built from, for all kinds but pods."""
    owner = (one.controller or {}).get("uid")
    found: tuple[Any, ...] = one.uid, one.labels, one.deleting, owner
    if one.noun == PersistentVolumeClaim:
        return *found, one.spec.get("volumeName"), one.status.get("phase")
    if one.noun == Node:
        return *found, _addresses(one)
    if one.noun == StoragePool:
        return *found, one.status.get("node"), one.status.get("device")
    return found


def _levels_of_pod(before: Object, after: Object) -> tuple[str, ...]:
    """Which tables a change of a pod matters to."""
    if before.uid != after.uid or before.spec.get("nodeName") != after.spec.get("nodeName"):
        return _DEPENDENTS[Pod]
    if (before.labels, before.deleting, is_present(before)) != (
        after.labels,
        after.deleting,
        is_present(after),
    ):
        return ("pod",)
    return ()


def _addresses(node: Object) -> tuple[str, ...]:
    found: Any = node.at("status", "addresses", default=())
    return tuple(str(each.get("address", "")) for each in found)


def _devices_of(sample: Sample) -> list[Key]:
    """The node and the name of a volume's own device, and of the disk below it."""
    node = sample.labels.get("node", "")
    names = (sample.labels.get("device", ""), sample.labels.get("disk", ""))
    return [(node, name) for name in names if name]


def _device_of(pool: Object) -> list[Key]:
    device = pool.at("status", "device", default="")
    return [(str(pool.at("status", "node", default="")), str(device))] if device else []


def _pool_of(sample: Sample) -> str:
    return f"{sample.labels.get('node', '')}-{sample.labels.get('tier', '')}"


def _split(name: str) -> Key:
    node, _, device = name.partition("/")
    return node, device


def _node_names(volume: Object) -> Iterable[str]:
    """The nodes that a PersistentVolume can be used on, if it says so by name."""
    terms: Any = volume.at("spec", "nodeAffinity", "required", "nodeSelectorTerms", default=())
    for term in terms:
        for one in term.get("matchExpressions") or ():
            if one.get("key") == _HOSTNAME and one.get("operator") == "In":
                yield from map(str, one.get("values") or ())
