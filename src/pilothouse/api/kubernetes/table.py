"""The table of Kubernetes' kinds, as schemas for the server and messages for the protobuf reader.

    schema("api.core.v1.Pod")        # a tree of shared nodes, such as io.k8s.api.core.v1.PodSpec
    messages()["k8s.io.api.core.v1.Pod"]

``table.json`` is derived by a script from what Kubernetes publishes: names, numbers, types, merge keys.
Defaults, enumerations and descriptions are added here. The file is read, and nodes are built, on first use.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from importlib import resources
from typing import Any, Final

import msgspec

from pilothouse.api.kubernetes.defaults import DEFAULTS
from pilothouse.api.kubernetes.descriptions import FIELDS, MESSAGES
from pilothouse.api.kubernetes.enums import ENUMS
from pilothouse.meta.object_meta import OBJECT_META
from pilothouse.meta.protobuf import Field, Message
from pilothouse.meta.schema.model import ANY, UNSET, Schema

Row = list[Any]

_META: Final = "apimachinery.pkg.apis.meta.v1"
_EXTENSIONS: Final = "apiextensions-apiserver.pkg.apis.apiextensions.v1"

QUANTITY: Final = Schema(
    ref="io.k8s.apimachinery.pkg.api.resource.Quantity",
    description="An amount such as 500m, 1.5 or 2Gi; a bare number is taken, too.",
    any_of=(Schema(type="string"), Schema(type="number")),
    preserve_unknown=True,
)
TIME: Final = Schema(
    type="string", format="date-time", ref=f"io.k8s.{_META}.Time", description="A time, RFC 3339."
)
MICRO_TIME: Final = Schema(
    type="string",
    format="date-time",
    ref=f"io.k8s.{_META}.MicroTime",
    description="A time, RFC 3339, to the microsecond.",
)
_TYPES: Final[dict[str, Schema]] = {
    "string": Schema(type="string"),
    "int32": Schema(type="integer", format="int32"),
    "int64": Schema(type="integer", format="int64"),
    "bool": Schema(type="boolean"),
    "bytes": Schema(type="string", format="byte"),
    "double": Schema(type="number", format="double"),
    "time": TIME,
    "microtime": MICRO_TIME,
    "quantity": QUANTITY,
    "int-or-string": Schema(int_or_string=True),
    "raw": ANY,
}
_WHOLE: Final[dict[str, Schema]] = {
    f"{_META}.ObjectMeta": OBJECT_META,
    # A schema holds schemas. The reader of a CRD checks it; here it is passed through.
    f"{_EXTENSIONS}.JSONSchemaProps": Schema(
        type="object",
        ref=f"io.k8s.{_EXTENSIONS}.JSONSchemaProps",
        description="An OpenAPI v3 schema.",
        preserve_unknown=True,
    ),
}
_LENIENT: Final = frozenset(
    {
        ("api.authentication.v1.TokenRequestSpec", "audiences"),
        ("api.authentication.v1.TokenRequestStatus", "expirationTimestamp"),
        ("api.authorization.v1.SubjectRulesReviewStatus", "resourceRules"),
        ("api.authorization.v1.SubjectRulesReviewStatus", "nonResourceRules"),
        ("api.discovery.v1.EndpointSlice", "endpoints"),
        ("api.events.v1.Event", "eventTime"),
        ("api.events.v1.EventSeries", "lastObservedTime"),
        (f"{_META}.Condition", "lastTransitionTime"),
    }
)
"""Published as required, but accepted without: Kubernetes decodes them to null and doesn't validate them."""


@cache
def _table() -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = msgspec.json.decode(
        (resources.files(__package__) / "table.json").read_bytes()
    )
    return found


@cache
def messages() -> dict[str, Message]:
    """Every message by its protobuf name."""
    found = {}
    for name, rows in _table().items():
        fields = {}
        transparent = False
        for row in rows:
            facts = row[3] if len(row) > 3 else {}
            transparent = transparent or "u" in facts
            if row[1]:
                fields[row[1]] = _field(row[0], row[2], facts)
        found[protobuf_name(name)] = Message(fields, transparent)
    return found


def protobuf_name(name: str) -> str:
    """The name of a table's message in the .proto files."""
    return "k8s.io." + name.replace("-", "_")


def _field(name: str, type_name: str, facts: dict[str, Any]) -> Field:
    plain = type_name.lstrip("[]{}")
    message = protobuf_name(plain[1:]) if plain.startswith("@") else ""
    return Field(
        name,
        "" if message else plain,
        message,
        repeated=type_name.startswith("[]"),
        map=type_name.startswith("{}"),
        keeps_zero="k" in facts,
        inline="i" in facts,
    )


@cache
def schema(name: str) -> Schema:
    """The node of a message, named as in the table (``api.core.v1.Pod``)."""
    if name in _WHOLE:
        return _WHOLE[name]
    rows = _table()[name]
    if any("u" in row[3] for row in rows if len(row) > 3):
        return _transparent(rows)
    properties: dict[str, Schema] = {}
    required: list[str] = []
    map_type = ""
    for row in rows:
        facts = row[3] if len(row) > 3 else {}
        if not row[2]:
            map_type = facts["t"]
        elif "i" in facts:
            inlined = schema(row[2][1:])
            properties.update(inlined.properties)
            required.extend(inlined.required)
        else:
            properties[row[0]] = _property(name, row[0], row[2], facts)
            if "r" in facts and (name, row[0]) not in _LENIENT:
                required.append(row[0])
    return Schema(
        type="object",
        ref=f"io.k8s.{name}",
        description=MESSAGES.get(name, ""),
        properties=properties,
        required=tuple(required),
        map_type=map_type,
    )


def _transparent(rows: list[Row]) -> Schema:
    """Of the messages that stand for one of their fields, schemas reach only lists of strings."""
    return _node(rows[0][2])


def _node(type_name: str) -> Schema:
    if type_name.startswith("[]"):
        return Schema(type="array", items=_node(type_name[2:]))
    if type_name.startswith("{}"):
        return Schema(type="object", additional=_node(type_name[2:]))
    return schema(type_name[1:]) if type_name.startswith("@") else _TYPES[type_name]


def _property(message: str, name: str, type_name: str, facts: dict[str, Any]) -> Schema:
    node = _node(type_name)
    changes: dict[str, Any] = {}
    description = FIELDS.get(message, {}).get(name, "")
    if description:
        changes["description"] = description
    enum = ENUMS.get(message, {}).get(name, ())
    if enum:
        changes["enum"] = enum
    default = DEFAULTS.get(message, {}).get(name, UNSET)
    if default is UNSET and "d" in facts and not (enum and facts["d"] == ""):
        # Mostly what a Go struct has anyway: zero for a required field, an empty struct for one that is no
        # pointer. A required enumeration gets none: its zero would be a wrong value, not a missing one.
        default = facts["d"]
    if default is not UNSET:
        changes["default"] = default
    for short, long in (("l", "list_type"), ("t", "map_type"), ("s", "merge_strategy"), ("g", "merge_key")):
        if short in facts:
            changes[long] = facts[short]
    if "m" in facts:
        changes["list_map_keys"] = tuple(facts["m"])
    if not changes:
        return node
    if node.ref:
        changes["component"] = node.component or node
    return replace(node, **changes)
