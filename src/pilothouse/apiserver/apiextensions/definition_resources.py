"""The resource that a CustomResourceDefinition describes, served like a built-in one.

    resource = resource_of(definition)
    resource.kinds, resource.storage

Versions differ in ``apiVersion`` only; the schema of the storage version prunes and defaults.
"""

from __future__ import annotations

from typing import Any

from pilothouse.apiserver.storage import codec
from pilothouse.meta.kind import Column, Kind, Object, Resource, ScalePaths
from pilothouse.meta.object_meta import object_schema
from pilothouse.meta.schema.schema_json import from_json
from pilothouse.meta.versions import api_version_rank


def resource_of(definition: Object) -> Resource:
    spec = definition["spec"]
    versions = sorted(spec["versions"], key=lambda version: api_version_rank(version["name"]))
    kinds = tuple(_kind(spec, version, versions) for version in versions)
    storage = next(version["name"] for version in versions if version["storage"])
    stored = next(kind for kind in kinds if kind.version == storage)

    def fit(obj: Object) -> None:
        stored.shape.prune(obj)
        stored.shape.default(obj)

    def convert(obj: Object, source: str, target: str) -> Object:
        converted = codec.copy({**obj, "apiVersion": f"{spec['group']}/{target}"})
        if target == storage:
            fit(converted)
        return converted

    # Objects written under the first schema are as it wants them; only after a change may some not be.
    changed = definition["metadata"].get("generation", 1) > 1
    return Resource(
        kinds=kinds,
        storage=storage,
        convert=convert if len(kinds) > 1 else None,
        refresh=fit if changed else None,
    )


def _kind(spec: dict[str, Any], version: dict[str, Any], versions: list[dict[str, Any]]) -> Kind:
    names = spec["names"]
    subresources = version.get("subresources") or {}
    scale = subresources.get("scale")
    selectable = [each["jsonPath"] for each in version.get("selectableFields") or []]
    return Kind(
        group=spec["group"],
        version=version["name"],
        name=names["kind"],
        list_kind=names.get("listKind", ""),
        plural=names["plural"],
        singular=names.get("singular") or names["kind"].lower(),
        short_names=tuple(names.get("shortNames") or ()),
        categories=tuple(names.get("categories") or ()),
        namespaced=spec["scope"] == "Namespaced",
        schema=object_schema(from_json((version.get("schema") or {}).get("openAPIV3Schema") or {})),
        served=version["served"],
        status="status" in subresources,
        scale=ScalePaths(
            spec=scale["specReplicasPath"],
            status=scale["statusReplicasPath"],
            selector=scale.get("labelSelectorPath", ""),
        )
        if scale
        else None,
        columns=tuple(_column(each) for each in version.get("additionalPrinterColumns") or ()),
        selectable={path.lstrip("."): path for path in selectable},
        deprecation=_deprecation(spec, version, versions),
    )


def _column(column: dict[str, Any]) -> Column:
    return Column(
        name=column["name"],
        type=column["type"],
        path=column["jsonPath"],
        format=column.get("format", ""),
        description=column.get("description", ""),
        priority=column.get("priority", 0),
    )


def _deprecation(spec: dict[str, Any], version: dict[str, Any], versions: list[dict[str, Any]]) -> str:
    if not version.get("deprecated"):
        return ""
    if version.get("deprecationWarning"):
        return str(version["deprecationWarning"])
    group, kind = spec["group"], spec["names"]["kind"]
    text = f"{group}/{version['name']} {kind} is deprecated"
    for other in versions:
        if other["served"] and not other.get("deprecated"):
            return f"{text}; use {group}/{other['name']} {kind}"
    return text
