"""``apiextensions.k8s.io/v1``: definitions of users' kinds.

Checks names, scope and versions; the code that builds kinds from a definition checks its schemas.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from pilothouse.api.kubernetes.kind_builders import native
from pilothouse.api.kubernetes.printer_cells import CREATED_AT, NAME
from pilothouse.api.kubernetes.shared_checks import Problems, follows, unchanged
from pilothouse.meta.fields import FieldError, element
from pilothouse.meta.kind import Object, Resource, single
from pilothouse.meta.names import label, label_1035, subdomain

GROUP: Final = "apiextensions.k8s.io"
_COLUMN_TYPES: Final = ("boolean", "date", "integer", "number", "string")
_COLUMN_FORMATS: Final = (
    "byte", "date", "date-time", "double", "float", "int32", "int64", "name", "password",
)  # fmt: skip
_PLAIN_PATH: Final = re.compile(r"\.(spec|status)(\.[A-Za-z0-9_$-]+)+").fullmatch
_MOST_SELECTABLE: Final = 8


def resources() -> tuple[Resource, ...]:
    definitions = native(
        f"{GROUP}/v1",
        "CustomResourceDefinition",
        status_metadata=(),
        namespaced=False,
        short_names=("crd", "crds"),
        categories=("api-extensions",),
        status=True,
        generation=True,
        unconditional_update=False,
        columns=(NAME, CREATED_AT),
        default=default_definition,
        prepare_create=_prepare,
        validate=validate_definition,
    )
    return (single(definitions),)


def default_definition(obj: Object) -> None:
    names = (obj.get("spec") or {}).get("names") or {}
    kind = names.get("kind", "")
    if kind:
        names["singular"] = names.get("singular") or kind.lower()
        names["listKind"] = names.get("listKind") or f"{kind}List"


def _prepare(obj: Object) -> None:
    stored = [each["name"] for each in obj["spec"].get("versions") or () if each.get("storage")]
    obj["status"] = {
        "acceptedNames": {"kind": "", "plural": ""},
        "conditions": [],
        "storedVersions": stored[:1],
    }


def validate_definition(new: Object, old: Object | None) -> Problems:
    spec = new["spec"]
    group, names = spec.get("group", ""), spec.get("names") or {}
    expected = f"{names.get('plural', '')}.{group}"
    name = new["metadata"].get("name", "")
    if name != expected:
        yield FieldError.invalid(
            "metadata.name", name, f'must be spec.names.plural+"."+spec.group, here "{expected}"'
        )
    if not group:
        yield FieldError.required("spec.group")
    elif problem := subdomain(group):
        yield FieldError.invalid("spec.group", group, problem)
    elif "." not in group:
        yield FieldError.invalid("spec.group", group, "should be a domain with at least one dot")
    if not spec.get("scope"):
        yield FieldError.required("spec.scope")
    if spec.get("preserveUnknownFields"):
        yield FieldError.invalid(
            "spec.preserveUnknownFields",
            True,
            "must be false in order to create or update: "
            "set x-kubernetes-preserve-unknown-fields in the schema instead",
        )
    yield from _check_names(names)
    yield from _check_versions(spec.get("versions") or ())
    yield from _check_conversion(spec.get("conversion") or {})
    if old is not None:
        yield from _check_update(new, old)


def _check_names(names: Mapping[str, Any]) -> Problems:
    for field in ("plural", "singular", "kind", "listKind"):
        value = names.get(field, "")
        path = f"spec.names.{field}"
        if not value:
            yield FieldError.required(path)
        elif field in ("plural", "singular"):
            yield from follows(path, value, label_1035)
        elif problem := label_1035(value.lower()):
            detail = f"may have mixed case, but should otherwise match: {problem}"
            yield FieldError.invalid(path, value, detail)
    if names.get("kind") and names.get("kind") == names.get("listKind"):
        yield FieldError.invalid(
            "spec.names.listKind", names["listKind"], "kind and listKind may not be the same"
        )
    for field in ("shortNames", "categories"):
        for index, value in enumerate(names.get(field) or ()):
            yield from follows(element(f"spec.names.{field}", index), value, label_1035)


def _check_versions(versions: Any) -> Problems:
    path = "spec.versions"
    given = [each.get("name", "") for each in versions]
    if len(set(given)) != len(given):
        yield FieldError.invalid(path, given, "must contain unique version names")
    if sum(bool(each.get("storage")) for each in versions) != 1:
        yield FieldError.invalid(path, given, "must have exactly one version marked as storage version")
    for index, version in enumerate(versions):
        at = element(path, index)
        if label_1035(version.get("name", "")) and label(version.get("name", "")):
            yield FieldError.invalid(
                f"{at}.name", version.get("name", ""), label_1035(version.get("name", ""))
            )
        if not (version.get("schema") or {}).get("openAPIV3Schema"):
            yield FieldError.required(f"{at}.schema.openAPIV3Schema", "schemas are required")
        if version.get("deprecationWarning") and not version.get("deprecated"):
            yield FieldError.invalid(
                f"{at}.deprecationWarning",
                version["deprecationWarning"],
                "can only be set for deprecated versions",
            )
        yield from _check_version_parts(version, at)


def _check_version_parts(version: Mapping[str, Any], path: str) -> Problems:
    for index, column in enumerate(version.get("additionalPrinterColumns") or ()):
        at = element(f"{path}.additionalPrinterColumns", index)
        for field in ("name", "jsonPath"):
            if not column.get(field):
                yield FieldError.required(f"{at}.{field}")
        if column.get("type", "") not in _COLUMN_TYPES:
            yield FieldError.invalid(
                f"{at}.type", column.get("type", ""), f"must be one of {','.join(_COLUMN_TYPES)}"
            )
        if column.get("format") and column["format"] not in _COLUMN_FORMATS:
            yield FieldError.invalid(
                f"{at}.format", column["format"], f"must be one of {','.join(_COLUMN_FORMATS)}"
            )
    scale = (version.get("subresources") or {}).get("scale")
    if scale is not None:
        for field, root in (("specReplicasPath", "spec"), ("statusReplicasPath", "status")):
            value = scale.get(field, "")
            if not value:
                yield FieldError.required(f"{path}.subresources.scale.{field}")
            elif not _PLAIN_PATH(value) or not value.startswith(f".{root}."):
                yield FieldError.invalid(
                    f"{path}.subresources.scale.{field}", value, f"should be a json path under .{root}"
                )
        selector = scale.get("labelSelectorPath")
        if selector and not _PLAIN_PATH(selector):
            yield FieldError.invalid(
                f"{path}.subresources.scale.labelSelectorPath",
                selector,
                "should be a json path under either .spec or .status",
            )
    yield from _check_selectable(version.get("selectableFields") or (), f"{path}.selectableFields")


def _check_selectable(fields: Any, path: str) -> Problems:
    seen: set[str] = set()
    for index, each in enumerate(fields):
        at, given = f"{element(path, index)}.jsonPath", each.get("jsonPath", "")
        if not given:
            yield FieldError.required(at)
        elif given.startswith(".metadata"):
            yield FieldError.invalid(at, given, "must not point to fields in metadata")
        elif given in seen:
            yield FieldError.duplicate(at, given)
        seen.add(given)
    if len(seen) > _MOST_SELECTABLE:
        yield FieldError.too_many(path, len(seen), _MOST_SELECTABLE)


def _check_conversion(conversion: Mapping[str, Any]) -> Problems:
    if conversion.get("strategy") == "Webhook":
        yield FieldError.forbidden(
            "spec.conversion.strategy",
            'this server doesn\'t call conversion webhooks; use "None", '
            "with which only apiVersion changes between versions",
        )
    elif conversion.get("webhook") is not None:
        yield FieldError.forbidden(
            "spec.conversion.webhook", "should not be set when strategy is not set to Webhook"
        )


def _check_update(new: Object, old: Object) -> Problems:
    for field in ("group", "scope"):
        yield from unchanged(f"spec.{field}", new["spec"].get(field), old["spec"].get(field))
    for field in ("plural", "kind"):
        mine, theirs = new["spec"]["names"].get(field), old["spec"]["names"].get(field)
        yield from unchanged(f"spec.names.{field}", mine, theirs)
    served = {each.get("name") for each in new["spec"].get("versions") or ()}
    for index, version in enumerate((new.get("status") or {}).get("storedVersions") or ()):
        if version not in served:
            yield FieldError.invalid(
                element("status.storedVersions", index),
                version,
                f"missing from spec.versions; {version} was previously a storage version, and must remain in "
                "spec.versions until every object was stored again and it was removed from "
                "status.storedVersions",
            )
