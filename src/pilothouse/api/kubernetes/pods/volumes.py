"""Validation of volumes: exactly one source each, and the source's own fields."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any, Final

from pilothouse.api.kubernetes.shared_checks import Problems, amount, descending_path, dns_label, without_nul
from pilothouse.api.kubernetes.table import schema
from pilothouse.meta.fields import FieldError, element

_NEEDED: Final = {
    "hostPath": "path",
    "configMap": "name",
    "secret": "secretName",
    "persistentVolumeClaim": "claimName",
    "nfs": "server",
    "csi": "driver",
}
_VOLUME_FIELDS: Final = (
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "metadata.annotations",
    "metadata.labels",
)
_SUBSCRIPT: Final = re.compile(r"metadata\.(labels|annotations)\['.+'\]").fullmatch
_RESOURCES: Final = tuple(
    f"{side}.{name}" for side in ("limits", "requests") for name in ("cpu", "ephemeral-storage", "memory")
)


def check_volumes(volumes: Collection[Mapping[str, Any]], path: str) -> Problems:
    seen: set[str] = set()
    for index, volume in enumerate(volumes):
        at = element(path, index)
        name = volume.get("name", "")
        yield from dns_label(f"{at}.name", name)
        if name and name in seen:
            yield FieldError.duplicate(f"{at}.name", name)
        seen.add(name)
        yield from _check_source(volume, at)


def _sources() -> list[str]:
    # The order decides which of several sources is the extra one; emptyDir comes first, as in Kubernetes.
    return sorted(schema("api.core.v1.VolumeSource").properties, key=lambda field: field != "emptyDir")


def _check_source(volume: Mapping[str, Any], path: str) -> Problems:
    sources = [field for field in _sources() if volume.get(field) is not None]
    for extra in sources[1:]:
        yield FieldError.forbidden(f"{path}.{extra}", "may not specify more than 1 volume type")
    if not sources:
        yield FieldError.required(path, "must specify a volume type")
        return
    source, at = volume[sources[0]], f"{path}.{sources[0]}"
    needed = _NEEDED.get(sources[0])
    if needed and not source.get(needed):
        yield FieldError.required(f"{at}.{needed}")
    match sources[0]:
        case "hostPath":
            yield from without_nul(f"{at}.path", source.get("path"))
            if ".." in (source.get("path") or "").split("/"):
                yield FieldError.invalid(f"{at}.path", source["path"], "must not contain '..'")
        case "emptyDir":
            limit = amount(source["sizeLimit"]) if "sizeLimit" in source else None
            if limit is not None and limit.to_float() < 0:
                yield FieldError.forbidden(
                    f"{at}.sizeLimit", "SizeLimit field must be a valid resource quantity"
                )
        case "configMap" | "secret":
            yield from _check_items(source, at)
        case "downwardAPI":
            yield from _check_files(source, at)
        case "projected":
            yield from _check_projections(source, at)


def _check_mode(source: Mapping[str, Any], path: str, field: str) -> Problems:
    mode = source.get(field)
    if mode is not None and not 0 <= mode <= 0o777:
        yield FieldError.invalid(
            f"{path}.{field}", mode, "must be a number between 0 and 0777 (octal), both inclusive"
        )


def _check_items(source: Mapping[str, Any], path: str) -> Problems:
    yield from _check_mode(source, path, "defaultMode")
    for index, item in enumerate(source.get("items") or ()):
        at = element(f"{path}.items", index)
        if not item.get("key"):
            yield FieldError.required(f"{at}.key")
        if not item.get("path"):
            yield FieldError.required(f"{at}.path")
        else:
            yield from descending_path(f"{at}.path", item["path"])
        yield from _check_mode(item, at, "mode")


def _check_files(source: Mapping[str, Any], path: str) -> Problems:
    yield from _check_mode(source, path, "defaultMode")
    for index, item in enumerate(source.get("items") or ()):
        at = element(f"{path}.items", index)
        if not item.get("path"):
            yield FieldError.required(f"{at}.path")
        else:
            yield from descending_path(f"{at}.path", item["path"])
        field, resource = item.get("fieldRef"), item.get("resourceFieldRef")
        if field and resource:
            yield FieldError.invalid(
                at, "resource", "fieldRef and resourceFieldRef can not be specified simultaneously"
            )
        elif field:
            asked = field.get("fieldPath", "")
            if asked not in _VOLUME_FIELDS and not _SUBSCRIPT(asked):
                yield FieldError.not_supported(f"{at}.fieldRef.fieldPath", asked, sorted(_VOLUME_FIELDS))
        elif resource:
            yield from check_resource_field(resource, f"{at}.resourceFieldRef")
            if not resource.get("containerName"):
                yield FieldError.required(f"{at}.resourceFieldRef.containerName")
        else:
            yield FieldError.required(at, "one of fieldRef and resourceFieldRef is required")
        yield from _check_mode(item, at, "mode")


def _check_projections(source: Mapping[str, Any], path: str) -> Problems:
    yield from _check_mode(source, path, "defaultMode")
    for index, projection in enumerate(source.get("sources") or ()):
        at = element(f"{path}.sources", index)
        given = [name for name, value in projection.items() if value is not None]
        for extra in given[1:]:
            yield FieldError.forbidden(f"{at}.{extra}", "may not specify more than 1 volume type per source")
        if not given:
            yield FieldError.required(at, "must specify a projection")
            continue
        inner, inner_path = projection[given[0]], f"{at}.{given[0]}"
        match given[0]:
            case "secret" | "configMap":
                if not inner.get("name"):
                    yield FieldError.required(f"{inner_path}.name")
                yield from _check_items(inner, inner_path)
            case "downwardAPI":
                yield from _check_files(inner, inner_path)
            case "serviceAccountToken":
                if not inner.get("path"):
                    yield FieldError.required(f"{inner_path}.path")
                yield from without_nul(f"{inner_path}.path", inner.get("path"))
                if inner.get("expirationSeconds", 3600) < 600:
                    yield FieldError.invalid(
                        f"{inner_path}.expirationSeconds",
                        inner["expirationSeconds"],
                        "may not specify a duration less than 10 minutes",
                    )


def check_resource_field(selector: Mapping[str, Any], path: str) -> Problems:
    """A reference to a container's own requests or limits."""
    resource = selector.get("resource", "")
    if not resource:
        yield FieldError.required(f"{path}.resource")
    elif resource not in _RESOURCES and ".hugepages-" not in resource:
        yield FieldError.not_supported(f"{path}.resource", resource, sorted(_RESOURCES))
