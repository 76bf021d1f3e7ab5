"""Discovery documents, aggregated (``APIGroupDiscoveryList``) and per group and version.

    discovery = DiscoveryDocuments(catalog)
    discovery.answer(Request("GET", "/apis/apps/v1"))    # an APIResourceList; None for other paths

They are cached until the catalog changes. Clients take the first group and version that has a name, so order
matters: core, Kubernetes' groups in its order, ours, all others by name.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Iterator
from hashlib import sha256
from typing import Any

import msgspec

from pilothouse.apiserver.discovery.catalog import KindCatalog
from pilothouse.apiserver.server.messages import JSON, Request, Response
from pilothouse.apiserver.server.negotiation import YAML, AnswerEndpoint, clauses, is_pretty, negotiate
from pilothouse.apiserver.storage import codec
from pilothouse.meta import errors
from pilothouse.meta.kind import Kind, Subresource

_AGGREGATED = "APIGroupDiscoveryList"
_AGGREGATED_GROUP = "apidiscovery.k8s.io"
_AGGREGATED_VERSIONS = ("v2", "v2beta1")
_PRIORITY = (
    "",
    "apps",
    "events.k8s.io",
    "authentication.k8s.io",
    "authorization.k8s.io",
    "autoscaling",
    "certificates.k8s.io",
    "policy",
    "rbac.authorization.k8s.io",
    "storage.k8s.io",
    "apiextensions.k8s.io",
    "coordination.k8s.io",
    "discovery.k8s.io",
    "navigator.jetstack.io",
    "autopilot.k0sproject.io",
    "autopilot.libopenstorage.org",
    "pilothouse.io",
)
_SUBRESOURCE_VERBS = ("get", "patch", "update")


class DiscoveryDocument(msgspec.Struct, frozen=True):
    """A body and its tag."""

    body: bytes
    tag: str

    @classmethod
    def of(cls, content: Any) -> DiscoveryDocument:
        body = codec.dump(content)
        return cls(body, f'"{sha256(body).hexdigest().upper()}"')


class DiscoveryDocuments:
    def __init__(self, catalog: KindCatalog) -> None:
        self._catalog = catalog
        self._generation = -1
        self._documents: dict[tuple[str, str], DiscoveryDocument | None] = {}

    def answer(self, request: Request) -> Response | None:
        path = request.path.rstrip("/")
        parts = path.split("/")[1:]
        if not parts or parts[0] not in ("api", "apis") or len(parts) > (2 if parts[0] == "api" else 3):
            return None
        if request.method not in ("GET", "HEAD"):
            raise errors.StatusError(405, "MethodNotAllowed", f"{request.method} is not supported on {path}")
        if self._generation != self._catalog.generation:
            self._documents.clear()
            self._generation = self._catalog.generation
        version = _aggregated_version(request) if len(parts) == 1 else ""
        if version:
            return self._aggregated(request, path, version)
        form = negotiate(request, AnswerEndpoint.PLAIN)
        document = self._document(path, "", lambda: self._legacy(parts))
        return Response(200, form.write(document.body), form.media) if document is not None else None

    def _aggregated(self, request: Request, path: str, version: str) -> Response:
        groups = [""] if path == "/api" else [group for group in self._groups() if group]
        document = self._document(path, version, lambda: self._everything(groups, version))
        assert document is not None
        headers = (("ETag", document.tag), ("Vary", "Accept"), ("Cache-Control", "public"))
        media = f"{JSON};g={_AGGREGATED_GROUP};v={version};as={_AGGREGATED}"
        if document.tag in request.headers.get("If-None-Match", ""):
            return Response(304, b"", media, headers)
        body = msgspec.json.format(document.body, indent=2) if is_pretty(request) else document.body
        return Response(200, body, media, headers)

    def _document(self, path: str, version: str, make: Callable[[], Any]) -> DiscoveryDocument | None:
        place = (path, version)
        if place not in self._documents:
            content = make()
            if content is None:
                # Not cached: clients may request any number of groups that don't exist.
                return None
            self._documents[place] = DiscoveryDocument.of(content)
        return self._documents[place]

    def _groups(self) -> list[str]:
        known = {group: index for index, group in enumerate(_PRIORITY)}
        return sorted(self._catalog.groups(), key=lambda group: (known.get(group, len(known)), group))

    # All at once

    def _everything(self, groups: list[str], version: str) -> Any:
        return {
            "kind": _AGGREGATED,
            "apiVersion": f"{_AGGREGATED_GROUP}/{version}",
            "metadata": {},
            "items": [self._group_item(group) for group in groups if group in self._catalog.groups()],
        }

    def _group_item(self, group: str) -> Any:
        versions = [
            {
                "version": version,
                "resources": [_resource_item(kind) for kind in self._catalog.kinds(group, version)],
                "freshness": "Current",
            }
            for version in self._catalog.groups()[group]
        ]
        return {"metadata": {"name": group} if group else {}, "versions": versions}

    # One by one

    def _legacy(self, parts: list[str]) -> Any:
        match parts:
            case ["api"]:
                versions = self._catalog.groups().get("", [])
                return {"kind": "APIVersions", "versions": versions, "serverAddressByClientCIDRs": []}
            case ["apis"]:
                groups = [self._group(group) for group in self._groups() if group]
                return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}
            case ["apis", group]:
                known = group in self._catalog.groups()
                return {"kind": "APIGroup", "apiVersion": "v1", **self._group(group)} if known else None
            case ["api", version]:
                return self._resource_list("", version)
            case ["apis", group, version]:
                return self._resource_list(group, version)
        return None

    def _group(self, group: str) -> dict[str, Any]:
        versions = [
            {"groupVersion": f"{group}/{version}", "version": version}
            for version in self._catalog.groups()[group]
        ]
        return {"name": group, "versions": versions, "preferredVersion": versions[0]}

    def _resource_list(self, group: str, version: str) -> Any:
        if version not in self._catalog.groups().get(group, ()):
            return None
        return {
            "kind": "APIResourceList",
            "apiVersion": "v1",
            "groupVersion": f"{group}/{version}" if group else version,
            "resources": [
                entry for kind in self._catalog.kinds(group, version) for entry in self._resources(kind)
            ],
        }

    def _resources(self, kind: Kind) -> Iterator[dict[str, Any]]:
        entry: dict[str, Any] = {
            "name": kind.plural,
            "singularName": _singular(kind),
            "namespaced": kind.namespaced,
            "kind": kind.name,
            "verbs": sorted(kind.verbs),
        }
        if kind.short_names:
            entry["shortNames"] = list(kind.short_names)
        if kind.categories:
            entry["categories"] = list(kind.categories)
        if not kind.virtual:
            entry["storageVersionHash"] = self._storage_hash(kind)
        yield entry
        for sub in _subresources(kind):
            entry = {
                "name": f"{kind.plural}/{sub.name}",
                "singularName": "",
                "namespaced": kind.namespaced,
                "kind": sub.kind,
                "verbs": sorted(sub.verbs),
            }
            if (sub.group, sub.version) != (kind.group, kind.version):
                entry |= {"group": sub.group, "version": sub.version}
            yield entry

    def _storage_hash(self, kind: Kind) -> str:
        """Changes with the storage version, for storage migrators."""
        served = self._catalog.find(kind.group, kind.version, kind.plural)
        stored = served.resource.storage if served is not None else kind.version
        return b64encode(sha256(f"{kind.group}/{stored}/{kind.name}".encode()).digest()[:8]).decode()


def _aggregated_version(request: Request) -> str:
    """The version of the aggregated form that the client prefers; empty for the old form."""
    for clause in clauses(request.headers.get("Accept", "")):
        params = clause.params
        if clause.media == JSON and params.get("as") == _AGGREGATED and params.get("g") == _AGGREGATED_GROUP:
            if params.get("v") in _AGGREGATED_VERSIONS:
                return params["v"]
        elif clause.media in (JSON, YAML, "*/*", "application/*") and "as" not in params:
            return ""
    return ""


def _resource_item(kind: Kind) -> dict[str, Any]:
    item: dict[str, Any] = {
        "resource": kind.plural,
        "responseKind": {"group": kind.group, "version": kind.version, "kind": kind.name},
        "scope": "Namespaced" if kind.namespaced else "Cluster",
        "singularResource": _singular(kind),
        "verbs": sorted(kind.verbs),
    }
    if kind.short_names:
        item["shortNames"] = list(kind.short_names)
    if kind.categories:
        item["categories"] = list(kind.categories)
    subresources = [
        {
            "subresource": sub.name,
            "responseKind": {"group": sub.group, "version": sub.version, "kind": sub.kind},
            "verbs": sorted(sub.verbs),
        }
        for sub in _subresources(kind)
    ]
    if subresources:
        item["subresources"] = subresources
    return item


def _subresources(kind: Kind) -> list[Subresource]:
    found = list(kind.subresources)
    listed = {sub.name for sub in found}
    if kind.status and "status" not in listed:
        found.append(
            Subresource(
                name="status",
                group=kind.group,
                version=kind.version,
                kind=kind.name,
                verbs=_SUBRESOURCE_VERBS,
            )
        )
    if kind.scale is not None and "scale" not in listed:
        found.append(
            Subresource(
                name="scale", group="autoscaling", version="v1", kind="Scale", verbs=_SUBRESOURCE_VERBS
            )
        )
    return sorted(found, key=lambda sub: sub.name)


def _singular(kind: Kind) -> str:
    return kind.singular or kind.name.lower()
