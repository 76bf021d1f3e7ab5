"""The OpenAPI v2 ("Swagger") document, for older clients.

    openapi_v2([openapi_v3(kinds) for kinds in by_group_version])

It is the v3 documents joined and rewritten. What v2 can't express (``anyOf``, ``oneOf``, ``not``, null) is
left out: a nullable value or an object that keeps unknown fields has no type, and a kind that does has only
its type. kubectl refuses arrays without items, and type or properties beside a ``$ref``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

Json = dict[str, Any]

_OLD_PREFIX: Final = "#/components/schemas/"
_PREFIX: Final = "#/definitions/"
_METHODS: Final = ("get", "post", "put", "patch", "delete")
_UNKNOWN: Final = ("nullable", "anyOf", "oneOf", "not")
_KIND: Final = "x-kubernetes-group-version-kind"
_KEEPS_ALL: Final = "x-kubernetes-preserve-unknown-fields"
_TYPING: Final = ("type", "format", "properties", "required", "items", "additionalProperties")


def openapi_v2(documents: Iterable[Json]) -> Json:
    """One document for all groups and versions."""
    paths: Json = {}
    definitions: Json = {}
    for document in documents:
        for path, item in document["paths"].items():
            paths[path] = _path(item)
        for name, schema in document["components"]["schemas"].items():
            definitions[name] = _definition(schema)
    return {
        "swagger": "2.0",
        "info": {"title": "Pilothouse", "version": "v1"},
        "paths": dict(sorted(paths.items())),
        "definitions": dict(sorted(definitions.items())),
        "securityDefinitions": {"BearerToken": {"type": "apiKey", "name": "authorization", "in": "header"}},
        "security": [{"BearerToken": []}],
    }


def _definition(schema: Json) -> Json:
    # kubectl would take the named properties for all there are, so an object is all that is declared.
    if schema.get(_KIND) and schema.get(_KEEPS_ALL):
        return {"type": "object", _KIND: schema[_KIND]}
    return _schema(schema)


def _path(item: Json) -> Json:
    said: Json = {"parameters": [_parameter(each) for each in item["parameters"]]}
    for method in _METHODS:
        if method in item:
            said[method] = _operation(item[method])
    return said


def _operation(operation: Json) -> Json:
    said = {
        key: value
        for key, value in operation.items()
        if key not in ("parameters", "requestBody", "responses")
    }
    parameters = [_parameter(each) for each in operation.get("parameters", ())]
    said["produces"] = ["application/json"]
    body = operation.get("requestBody")
    if body is not None:
        said["consumes"] = list(body["content"])
        schema = next(iter(body["content"].values()))["schema"]
        parameters.append(
            {"name": "body", "in": "body", "required": body.get("required", False), "schema": _schema(schema)}
        )
    said["parameters"] = parameters
    said["responses"] = {code: _response(answer) for code, answer in operation["responses"].items()}
    return said


def _parameter(parameter: Json) -> Json:
    said = {key: value for key, value in parameter.items() if key != "schema"}
    return {**said, **parameter["schema"], "uniqueItems": True}


def _response(answer: Json) -> Json:
    said: Json = {"description": answer["description"]}
    for content in answer.get("content", {}).values():
        said["schema"] = _schema(content["schema"])
    return said


def _schema(schema: Json) -> Json:
    reference = schema.get("$ref")
    if reference is not None:
        return {"$ref": reference.replace(_OLD_PREFIX, _PREFIX)}
    said = {key: value for key, value in schema.items() if key not in _UNKNOWN}
    every = said.pop("allOf", ())
    if len(every) == 1 and "$ref" in every[0]:
        # A use of a component with a description of its own; v2 takes both side by side.
        if not schema.get("nullable"):
            said["$ref"] = every[0]["$ref"].replace(_OLD_PREFIX, _PREFIX)
        return said
    if schema.get("nullable") or schema.get(_KEEPS_ALL):
        return {key: value for key, value in said.items() if key not in _TYPING}
    if said.get("type") == "array" and "items" not in said:
        del said["type"]
    properties = said.get("properties", {})
    if "required" in said:
        # A client that takes null for absent would refuse it.
        said["required"] = [name for name in said["required"] if not properties.get(name, {}).get("nullable")]
        if not said["required"]:
            del said["required"]
    if properties:
        said["properties"] = {name: _schema(each) for name, each in properties.items()}
    for key in ("items", "additionalProperties"):
        if isinstance(said.get(key), dict):
            said[key] = _schema(said[key])
    return said
