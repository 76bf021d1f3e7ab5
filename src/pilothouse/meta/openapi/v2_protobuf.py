"""An OpenAPI v2 document as protobuf (gnostic's ``openapi.v2.Document``), which older kubectls require.

    openapi_protobuf(openapi_v2(documents))

A table has, for each message, the JSON keys of its fields in the order of their numbers, each with its type:

``[T]``    a repeated field
``(T)``    a message whose field 1 repeats T; the JSON may have a list or a single value
``{T}``    a map: a message whose field 1 repeats pairs of a name (1) and a value (2)
``any``    any JSON: a message whose field 2 is YAML text (JSON is YAML)

Keys with ``x-`` are vendor extensions: pairs of a name and an ``any``, in the table's field ``x-``.
``_CHOICES`` selects one of several messages by the value. An unknown key is a ``ValueError``, not silently
dropped.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Mapping
from functools import cache, cached_property
from typing import Any, Final

import msgspec

from pilothouse.base.protobuf_wire import BYTES, FIXED64, VARINT, tag, varint

Json = dict[str, Any]
Write = Callable[[Any], bytes]
Choose = Callable[[Any], tuple[int, str]]
"""The number and type of a field."""

_EXTENSION: Final = "x-"
_LIMITS: Final = (
    "default:any maximum:double exclusiveMaximum:bool minimum:double exclusiveMinimum:bool maxLength:int "
    "minLength:int pattern maxItems:int minItems:int uniqueItems:bool enum:[any] multipleOf:double"
)
_PLACE: Final = "required:bool in description name"
_PRIMITIVE: Final = f"type format items:Items collectionFormat {_LIMITS}"

_MESSAGES: Final = {
    "Document": "swagger info:Info host basePath schemes:[string] consumes:[string] produces:[string] "
    "paths:Paths definitions:{Schema} parameters:{Parameter} responses:{Response} security:[{(string)}] "
    "securityDefinitions:{Security} tags:[Tag] externalDocs:Docs x-",
    "Info": "title version description termsOfService contact:Contact license:License x-",
    "Contact": "name url email x-",
    "License": "name url x-",
    "Docs": "description url x-",
    "Tag": "name description externalDocs:Docs x-",
    "PathItem": "$ref get:Operation put:Operation post:Operation delete:Operation options:Operation "
    "head:Operation patch:Operation parameters:[ParameterItem] x-",
    "Operation": "tags:[string] summary description externalDocs:Docs operationId produces:[string] "
    "consumes:[string] parameters:[ParameterItem] responses:Responses schemes:[string] deprecated:bool "
    "security:[{(string)}] x-",
    "Reference": "$ref description",
    "BodyParameter": "description name in required:bool schema:Schema x-",
    "HeaderParameter": f"{_PLACE} {_PRIMITIVE} x-",
    "FormParameter": f"{_PLACE} allowEmptyValue:bool {_PRIMITIVE} x-",
    "QueryParameter": f"{_PLACE} allowEmptyValue:bool {_PRIMITIVE} x-",
    "PathParameter": f"{_PLACE} {_PRIMITIVE} x-",
    "Items": f"{_PRIMITIVE} x-",
    "Response": "description schema:ResponseSchema headers:{Header} examples:{any} x-",
    "Header": f"{_PRIMITIVE} description x-",
    "File": "format title description default:any required:[string] type readOnly:bool externalDocs:Docs "
    "example:any x-",
    "Schema": "$ref format title description default:any multipleOf:double maximum:double "
    "exclusiveMaximum:bool minimum:double exclusiveMinimum:bool maxLength:int minLength:int pattern "
    "maxItems:int minItems:int uniqueItems:bool maxProperties:int minProperties:int required:[string] "
    "enum:[any] additionalProperties:Additional type:(string) items:(Schema) allOf:[Schema] "
    "properties:{Schema} discriminator readOnly:bool xml:Xml externalDocs:Docs example:any x-",
    "Xml": "name namespace prefix attribute:bool wrapped:bool x-",
    "Basic": "type description x-",
    "ApiKey": "type name in description x-",
    "Implicit": "type flow scopes:{string} authorizationUrl description x-",
    "Password": "type flow scopes:{string} tokenUrl description x-",
    "Application": "type flow scopes:{string} tokenUrl description x-",
    "AccessCode": "type flow scopes:{string} authorizationUrl tokenUrl description x-",
}
_OPEN: Final = {
    "Paths": (1, 2, "PathItem"),
    "Responses": (2, 1, "ResponseItem"),
}
"""Messages with free keys: the field numbers of extensions and entries, and the type of entries."""

_PLACES: Final = {
    "header": (1, "HeaderParameter"),
    "formData": (2, "FormParameter"),
    "query": (3, "QueryParameter"),
    "path": (4, "PathParameter"),
}
_SECURITY: Final = {
    "basic": (1, "Basic"),
    "apiKey": (2, "ApiKey"),
    "implicit": (3, "Implicit"),
    "password": (4, "Password"),
    "application": (5, "Application"),
    "accessCode": (6, "AccessCode"),
}
_CHOICES: Final[Mapping[str, Choose]] = {
    "ParameterItem": lambda value: (2, "Reference") if "$ref" in value else (1, "Parameter"),
    "Parameter": lambda value: (1, "BodyParameter") if value["in"] == "body" else (2, "OtherParameter"),
    "OtherParameter": lambda value: _PLACES[value["in"]],
    "ResponseItem": lambda value: (2, "Reference") if "$ref" in value else (1, "Response"),
    "ResponseSchema": lambda value: (2, "File") if value.get("type") == "file" else (1, "Schema"),
    "Additional": lambda value: (2, "bool") if isinstance(value, bool) else (1, "Schema"),
    "Security": lambda value: _SECURITY[value.get("flow", value["type"])],
}

_BREAKING: Final = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")
"""Valid in JSON strings, but a line break or invalid in YAML."""


def openapi_protobuf(document: Json) -> bytes:
    """The bytes of a document."""
    return _content("Document")(document)


@cache
def _content(kind: str) -> Write:
    """Writes the content of a string or message of this type."""
    if kind == "string":
        return str.encode
    if kind == "any":
        text = _field(2, "string")
        return lambda value: text(_yaml(value))
    if kind in _CHOICES:
        choose = _CHOICES[kind]

        def chosen(value: Any) -> bytes:
            return _field(*choose(value))(value)

        return chosen
    if kind in _OPEN:
        return _open(*_OPEN[kind])
    inner = kind[1:-1]
    if kind.startswith("("):
        each = _field(1, inner)
        return lambda value: b"".join(map(each, value if isinstance(value, list) else (value,)))
    if kind.startswith("{"):
        pair = _pair(1, inner)
        return lambda value: b"".join(pair(item) for item in value.items())
    return _Message(kind)


@cache
def _field(number: int, kind: str) -> Write:
    """Writes a whole field: tag, length where it takes one, and content."""
    if kind.startswith("["):
        each = _field(number, kind[1:-1])
        return lambda values: b"".join(map(each, values))
    if kind in ("bool", "int"):
        key = tag(number, VARINT)
        return lambda value: key + varint(int(value))
    if kind == "double":
        key = tag(number, FIXED64)
        return lambda value: key + struct.pack("<d", value)
    return _delimited(number, _content(kind))


def _delimited(number: int, content: Write) -> Write:
    key = tag(number, BYTES)

    def write(value: Any) -> bytes:
        inside = content(value)
        return b"%b%b%b" % (key, varint(len(inside)), inside)

    return write


@cache
def _pair(number: int, kind: str) -> Write:
    """Writes a name and its value as one field."""
    name, value = _field(1, "string"), _field(2, kind)
    return _delimited(number, lambda item: name(item[0]) + value(item[1]))


def _open(extension: int, entry: int, kind: str) -> Write:
    extended, listed = _pair(extension, "any"), _pair(entry, kind)

    def write(value: Json) -> bytes:
        return b"".join(
            extended(item) if item[0].startswith(_EXTENSION) else listed(item) for item in value.items()
        )

    return write


class _Message:
    """A message of the table. Fields are resolved on first use, since messages contain each other."""

    def __init__(self, name: str) -> None:
        self.name = name

    @cached_property
    def fields(self) -> dict[str, Write]:
        found = {}
        for number, text in enumerate(_MESSAGES[self.name].split(), start=1):
            key, _, kind = text.partition(":")
            found[key] = _pair(number, "any") if key == _EXTENSION else _field(number, kind or "string")
        return found

    def __call__(self, value: Json) -> bytes:
        fields = self.fields
        parts = []
        for key, item in value.items():
            if key in fields:
                parts.append(fields[key](item))
            elif key.startswith(_EXTENSION) and _EXTENSION in fields:
                parts.append(fields[_EXTENSION]((key, item)))
            else:
                raise ValueError(f"OpenAPI v2 has no field {key!r} in {self.name}")
        return b"".join(parts)


def _yaml(value: Any) -> str:
    text = msgspec.json.encode(value).decode()
    return _BREAKING.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
