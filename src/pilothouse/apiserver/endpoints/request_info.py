"""Resolves URL and method to a verb on a resource.

    info = locate("/apis/apps/v1/namespaces/t/statefulsets/db/scale")
    info.group, info.plural, info.name, info.subresource        # ("apps", "statefulsets", "db", "scale")
    verb_of("GET", info, {})                                    # "get"

Non-resource paths (discovery, health, OpenAPI) have an empty ``plural``.
"""

from __future__ import annotations

from functools import lru_cache

import msgspec

from pilothouse.apiserver.server.messages import is_true
from pilothouse.meta.kind import Kind

_NAMESPACE_SUBRESOURCES = frozenset({"status", "finalize"})
_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch"}


class RequestInfo(msgspec.Struct, frozen=True):
    """The resource part of a path, without the verb."""

    group: str = ""
    version: str = ""
    namespace: str = ""
    plural: str = ""
    name: str = ""
    subresource: str = ""
    watch: bool = False
    """The deprecated ``/watch/`` prefix form."""
    namespaced: bool = False
    """The path names a namespace (even an empty resource in it)."""

    @property
    def is_resource(self) -> bool:
        return bool(self.plural)


NOWHERE = RequestInfo()


@lru_cache(maxsize=8192)
def locate(path: str) -> RequestInfo:
    """The resource part of a path; ``NOWHERE`` for a path that is no resource's."""
    parts = path.strip("/").split("/")
    if parts[0] == "api" and len(parts) >= 3:
        group, version, rest = "", parts[1], parts[2:]
    elif parts[0] == "apis" and len(parts) >= 4:
        group, version, rest = parts[1], parts[2], parts[3:]
    else:
        return NOWHERE
    if "" in rest:
        return NOWHERE
    watch = rest[0] == "watch" and len(rest) > 1
    if watch:
        rest = rest[1:]
    namespace = ""
    namespaced = False
    if rest[0] == "namespaces" and len(rest) > 2 and rest[2] not in _NAMESPACE_SUBRESOURCES:
        namespace, rest, namespaced = rest[1], rest[2:], True
    elif rest[0] == "namespaces" and len(rest) > 1 and not group:
        namespace = rest[1]
    if len(rest) > 3:
        # What follows is a path of the node's own server.
        if group or namespaced or rest[0] != "nodes" or rest[2] != "proxy":
            return NOWHERE
        rest = rest[:3]
    padded = [*rest, "", ""]
    return RequestInfo(group, version, namespace, padded[0], padded[1], padded[2], watch, namespaced)


def verb_of(method: str, place: RequestInfo, params: dict[str, str]) -> str:
    """The API verb; empty for a method that has none."""
    if method in ("GET", "HEAD"):
        if place.name and not place.watch:
            return "get"
        return "watch" if place.watch or is_true(params.get("watch")) else "list"
    if method == "DELETE":
        return "delete" if place.name else "deletecollection"
    return _VERBS.get(method, "")


def fits(kind: Kind, place: RequestInfo, verb: str) -> bool:
    """Whether the path has a namespace just where the kind needs one."""
    if kind.namespaced:
        return place.namespaced or (not place.name and verb in ("list", "watch"))
    return not place.namespaced


def subresource_verbs(kind: Kind, name: str) -> tuple[str, ...]:
    """What may be done with a subresource of a kind; nothing if it has none of this name."""
    if name == "status" and kind.status:
        return ("get", "update", "patch")
    if name == "scale" and kind.scale is not None:
        return ("get", "update", "patch")
    for subresource in kind.subresources:
        if subresource.name == name:
            return subresource.verbs
    return ()
