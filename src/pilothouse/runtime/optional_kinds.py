"""Kinds that a server may lack, or serve in another version.

    Manager(api, controllers, informers, …, served_as=await served_kinds(api))

A cache of a kind that is not served would never be filled, and hold up the start. Controllers that read such
a kind see no objects of it. What is served is asked at the start: a server that begins to serve one has been
restarted with other flags, and so has to be the manager.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pilothouse.api.kind_names import KindName, VolumeAttributesClass
from pilothouse.client.api import Api
from pilothouse.client.discovery import NoSuchKind, discover

ServedAs = Mapping[KindName, KindName | None]
"""The version that a kind is served in; None if it is not served."""
ALL_SERVED: Final[ServedAs] = {}
_VERSIONS: Final[Mapping[KindName, tuple[str, ...]]] = {VolumeAttributesClass: ("v1", "v1beta1")}
"""The versions that may be read in place of each other, the preferred first."""


async def served_kinds(api: Api) -> ServedAs:
    """Ask a server for the optional kinds. Raises what ``Api`` raises."""
    found = await discover(api)
    served: dict[KindName, KindName | None] = {}
    for noun, versions in _VERSIONS.items():
        served[noun] = None
        for version in reversed(versions):
            try:
                served[noun] = found.find(noun.kind, group=noun.group, version=version)
            except NoSuchKind:
                continue
    return {noun: each for noun, each in served.items() if each is None or each.version != noun.version}
