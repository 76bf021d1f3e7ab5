"""The kinds that a server serves, in its preferred versions.

    discovery = await discover(api)
    discovery.find("Database"), discovery.find("databases", group="nav.example.io")
    discovery.called("sts")                     # as people call it

Servers since 1.30 need two requests; others one per group and version.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import msgspec

from pilothouse.api.kind_names import KindName
from pilothouse.client.api import Api

_AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json"


class NoSuchKind(LookupError):
    """The server does not serve such a kind."""


@dataclass(frozen=True, slots=True)
class DiscoveredKind:
    """A resource and what can be done with its objects."""

    noun: KindName
    verbs: frozenset[str]
    nicknames: frozenset[str] = frozenset()
    """What else people call it: the singular, and short names."""

    def is_called(self, word: str) -> bool:
        """Whether a word means it: kind, plural, singular or short name, with or without the group."""
        name, _, group = word.lower().partition(".")
        known = {self.noun.kind.lower(), self.noun.plural, *self.nicknames}
        return name in known and (not group or group == self.noun.group)


class DiscoveredKinds:
    """The kinds of a server; versions in its order of preference."""

    def __init__(self, served: tuple[DiscoveredKind, ...]) -> None:
        self.served = served

    def find(self, name: str, *, group: str | None = None, version: str | None = None) -> KindName:
        """By kind or plural. Raises ``NoSuchKind``."""
        for each in self.served:
            noun = each.noun
            if (
                name in (noun.kind, noun.plural)
                and group in (None, noun.group)
                and version in (None, noun.version)
            ):
                return noun
        raise NoSuchKind(f"the server does not serve {name}{_within(group, version)}")

    def called(self, word: str) -> KindName:
        """The kind of a word such as ``sts``, ``StatefulSet`` or ``statefulset.apps``. Raises
        ``NoSuchKind``."""
        for each in self.served:
            if each.is_called(word):
                return each.noun
        raise NoSuchKind(f"the server does not serve {word}; `kubectl api-resources` lists what it serves")


def _within(group: str | None, version: str | None) -> str:
    return f" in {'/'.join(part for part in (group, version) if part)}" if group or version else ""


async def discover(api: Api) -> DiscoveredKinds:
    """Ask a server. Raises what ``Api`` raises."""
    found: list[DiscoveredKind] = []
    for root in ("/api", "/apis"):
        document = msgspec.json.decode(await api.fetch(root, accept=_AGGREGATED))
        if document.get("kind") == "APIGroupDiscoveryList":
            found += _aggregated(document)
        else:
            for group, version in _versions(document):
                path = f"{root}/{group}/{version}" if group else f"{root}/{version}"
                found += _legacy(group, version, msgspec.json.decode(await api.fetch(path)))
    return DiscoveredKinds(tuple(found))


def _aggregated(document: dict[str, Any]) -> Iterator[DiscoveredKind]:
    for group in document.get("items") or ():
        name = group.get("metadata", {}).get("name", "")
        for version in group.get("versions") or ():
            for each in version.get("resources") or ():
                kind = each.get("responseKind", {}).get("kind", "")
                namespaced = each.get("scope") == "Namespaced"
                noun = KindName(name, version["version"], kind, each["resource"], namespaced)
                yield DiscoveredKind(
                    noun, frozenset(each.get("verbs") or ()), _nicknames(each, "singularResource")
                )


def _nicknames(each: dict[str, Any], singular: str) -> frozenset[str]:
    return frozenset(filter(None, (each.get(singular), *(each.get("shortNames") or ()))))


def _versions(document: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Groups and versions, each group's preferred version first."""
    for version in document.get("versions") or ():
        yield "", version
    for group in document.get("groups") or ():
        preferred = group.get("preferredVersion", {}).get("version")
        versions = [each["version"] for each in group.get("versions") or ()]
        for version in sorted(versions, key=lambda each: each != preferred):
            yield group["name"], version


def _legacy(group: str, version: str, document: dict[str, Any]) -> Iterator[DiscoveredKind]:
    for each in document.get("resources") or ():
        if "/" not in each["name"]:  # else a subresource
            noun = KindName(group, version, each["kind"], each["name"], each["namespaced"])
            yield DiscoveredKind(noun, frozenset(each.get("verbs") or ()), _nicknames(each, "singularName"))
