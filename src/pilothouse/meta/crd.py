"""Our kinds as CustomResourceDefinitions, for a real Kubernetes API server.

    crd_manifest(PILOTS)                       # the stored version alone
    crd_manifest(PILOTS, versions="all")       # every version, with the conversion that the caller adds

Schemas are inlined, since a CRD can't refer to components, and ``metadata`` is left to the server. Columns
that are functions are left out, and so is ``validate``: our controllers' webhook does that.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final, Literal

from pilothouse.meta.kind import Column, Kind, Resource
from pilothouse.meta.schema.model import Schema
from pilothouse.meta.schema.schema_json import to_json

Json = dict[str, Any]


def crd_manifest(
    resource: Resource,
    *,
    versions: Literal["stored", "all"] = "stored",
    conversion: Mapping[str, Any] | None = None,
    descriptions: bool = True,
) -> Json:
    """The CustomResourceDefinition of a resource."""
    kinds = resource.kinds if versions == "all" else (resource.stored,)
    stored = resource.stored
    names: Json = {
        "kind": stored.name,
        "listKind": stored.list_name,
        "plural": stored.plural,
        "singular": stored.singular or stored.name.lower(),
    }
    for field, given in (("shortNames", stored.short_names), ("categories", stored.categories)):
        if given:
            names[field] = list(given)
    spec: Json = {
        "group": resource.group,
        "names": names,
        "scope": "Namespaced" if stored.namespaced else "Cluster",
        "versions": [_version(kind, kind is stored, descriptions) for kind in kinds],
    }
    if conversion is not None:
        spec["conversion"] = dict(conversion)
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{resource.plural}.{resource.group}"},
        "spec": spec,
    }


def webhook_conversion(url: str, authority: bytes) -> Json:
    """The ``conversion`` by a webhook at ``url``; ``authority`` is the PEM of its CA."""
    client: Json = {"url": url}
    if authority:
        client["caBundle"] = b64encode(authority).decode()
    return {"strategy": "Webhook", "webhook": {"clientConfig": client, "conversionReviewVersions": ["v1"]}}


def _version(kind: Kind, stored: bool, descriptions: bool) -> Json:
    said: Json = {"name": kind.version, "served": True, "storage": stored}
    if kind.deprecation:
        said["deprecated"] = True
        said["deprecationWarning"] = kind.deprecation
    said["schema"] = {"openAPIV3Schema": crd_schema(kind.schema, descriptions=descriptions)}
    subresources: Json = {}
    if kind.status:
        subresources["status"] = {}
    if kind.scale is not None:
        subresources["scale"] = {"specReplicasPath": kind.scale.spec, "statusReplicasPath": kind.scale.status}
        if kind.scale.selector:
            subresources["scale"]["labelSelectorPath"] = kind.scale.selector
    if subresources:
        said["subresources"] = subresources
    columns = [_column(column) for column in kind.columns if column.path and column.format != "name"]
    if columns:
        said["additionalPrinterColumns"] = columns
    # A CRD names a selectable field by its path, so only labels equal to their path carry over.
    selectable = [{"jsonPath": path} for label, path in kind.selectable.items() if path == f".{label}"]
    # kube-apiserver refuses the same selectable fields in versions with different schemas.
    if selectable and stored:
        said["selectableFields"] = selectable
    return said


def crd_schema(schema: Schema, *, descriptions: bool = True) -> Json:
    """A kind's schema as a CRD takes it: inlined, without ``metadata``."""
    properties = {**schema.properties, "metadata": Schema(type="object")}
    return _fit_for_crd(to_json(replace(schema, properties=properties)), descriptions)


def _column(column: Column) -> Json:
    said: Json = {"name": column.name, "type": column.type, "jsonPath": column.path}
    for field in ("format", "description", "priority"):
        if given := getattr(column, field):
            said[field] = given
    return said


_FOREIGN: Final = ("x-kubernetes-patch-merge-key", "x-kubernetes-patch-strategy")
"""Strategic merge keywords, which CRDs don't have."""


def _fit_for_crd(raw: Json, descriptions: bool) -> Json:
    said: Json = {}
    for key, value in raw.items():
        if key == "properties":
            said[key] = {name: _fit_for_crd(each, descriptions) for name, each in value.items()}
        elif key in ("items", "additionalProperties", "not") and isinstance(value, dict):
            said[key] = _fit_for_crd(value, descriptions)
        elif key not in _FOREIGN and (descriptions or key != "description"):
            said[key] = value
    return said
