"""The chain of controlling owners, from an object up to the one that no other controls.

    topmost(pod, world.find)        # pod → StatefulSet → ElasticsearchCluster

Each owner is found by its uid: one that was created again under the same name controls nothing of the first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from pilothouse.api.applications.registry import application_of_owner
from pilothouse.api.kind_names import KindName, noun_of
from pilothouse.api.objects import Object

FindObject = Callable[[KindName, str, str], Object | None]
_LONGEST: Final = 10
"""Owners that are looked at: references may go round in a circle."""


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
