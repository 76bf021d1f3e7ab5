"""The controllers of an object, up to the topmost one.

    top = topmost_owner(claim, world, readable=(Pod, StatefulSet, ElasticsearchCluster))
    f"{top.kind}/{top.name}"                # "ElasticsearchCluster/logs"

A claim without owner references belongs to what its pod belongs to. The walk ends at a kind that can't be
read: that object is known by its reference alone.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final, Protocol

import msgspec

from pilothouse.api.applications.registry import application_of_owner
from pilothouse.api.kind_names import KNOWN, KindName, PersistentVolumeClaim, Pod, noun_of
from pilothouse.api.objects import Object

FindObject = Callable[[KindName, str, str], Object | None]
_LONGEST: Final = 10
"""Owners that are looked at: references may go round in a circle."""
_GROUP_VERSION: Final = re.compile(r"([a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?/)?v[a-z0-9]{1,30}")
_KIND: Final = re.compile(r"[A-Z][A-Za-z0-9]{0,62}")


class OwnerLookup(Protocol):
    """Finds objects; a ``Snapshot`` does."""

    def find(self, kind: KindName, namespace: str, name: str, /) -> Object | None: ...

    def all(self, kind: KindName, namespace: str = "", /) -> Sequence[Object]: ...


class Owner(msgspec.Struct, frozen=True):
    """An object that controls others, and itself, if it can be read."""

    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str
    object: Object | None = None

    def __str__(self) -> str:
        return f"{self.kind}/{self.name}"

    @property
    def is_spelt_well(self) -> bool:
        """Whether it can be a kind at all: who may write an object may write any text into its references."""
        return bool(_GROUP_VERSION.fullmatch(self.api_version) and _KIND.fullmatch(self.kind))


def topmost_owner(one: Object, world: OwnerLookup, *, readable: Collection[KindName]) -> Owner | None:
    """The last of ``owners``; None if nothing controls the object."""
    chain = owners(one, world, readable=readable)
    return chain[-1] if chain else None


def owners(one: Object, world: OwnerLookup, *, readable: Collection[KindName]) -> list[Owner]:
    """What controls an object, what controls that, and so on. Only ``readable`` kinds are looked up."""
    chain: list[Owner] = []
    if one.noun == PersistentVolumeClaim and _reference(one) is None:
        pod = pod_of_claim(one, world) if Pod in readable else None
        if pod is None:
            return []
        one = pod
    while len(chain) < _LONGEST and (reference := _reference(one)) is not None:
        version, kind = str(reference.get("apiVersion", "")), str(reference.get("kind", ""))
        name, uid = str(reference.get("name", "")), str(reference.get("uid", ""))
        noun = next((each for each in readable if (each.api_version, each.kind) == (version, kind)), None)
        found = world.find(noun, one.namespace, name) if noun is not None else None
        if found is not None and uid and found.uid != uid:
            found = None
        known = noun or KNOWN.get((version, kind))
        namespace = one.namespace if known is None or known.namespaced else ""
        chain.append(Owner(version, kind, namespace, name, uid, found))
        if found is None:
            break
        one = found
    return chain


def pods_of_claim(claim: Object, world: OwnerLookup) -> list[Object]:
    """The pods that have a claim as a volume."""
    return [pod for pod in world.all(Pod, claim.namespace) if claim.name in claims_of_pod(pod)]


def pod_of_claim(claim: Object, world: OwnerLookup) -> Object | None:
    """A pod that has a claim as a volume. A StatefulSet's is found by its name, ``<template>-<pod>``, without
    a look at all pods."""
    parts = claim.name.split("-")
    for number in range(1, len(parts)):
        pod = world.find(Pod, claim.namespace, "-".join(parts[number:]))
        if pod is not None and claim.name in claims_of_pod(pod):
            return pod
    return next(iter(pods_of_claim(claim, world)), None)


def claims_of_pod(pod: Object) -> set[str]:
    """The names of the claims that are its volumes."""
    found: set[str] = set()
    for volume in pod.spec.get("volumes") or ():
        if name := (volume.get("persistentVolumeClaim") or {}).get("claimName"):
            found.add(str(name))
        elif "ephemeral" in volume:
            found.add(f"{pod.name}-{volume.get('name')}")
    return found


def _reference(one: Object) -> dict[str, Any] | None:
    """Its controlling owner, else its only one."""
    references = one.metadata.owner_references or ()
    if one.controller is not None:
        return dict(one.controller)
    return references[0] if len(references) == 1 else None


def controller_of(obj: Object, find: FindObject) -> Object | None:
    """The object's controlling owner; None if it has none, it is gone, or its kind can't be looked up."""
    reference = obj.controller
    if reference is None:
        return None
    try:
        found = find(kind_of(reference), obj.namespace, str(reference.get("name", "")))
    except LookupError:
        # A snapshot has the kinds that its controller declares; others end the chain.
        return None
    return found if found is not None and found.uid == reference.get("uid") else None


def topmost(obj: Object, find: FindObject) -> Object:
    """The last controlling owner that is found; the object itself if there is none."""
    for _ in range(_LONGEST):
        above = controller_of(obj, find)
        if above is None:
            break
        obj = above
    return obj


def kind_of(reference: Mapping[str, Any]) -> KindName:
    """The kind that an owner reference names, for a cluster in the version that clients here use."""
    application = application_of_owner(reference)
    if application is not None and application.cluster is not None:
        return application.cluster
    return noun_of(str(reference.get("apiVersion", "")), str(reference.get("kind", "")))
