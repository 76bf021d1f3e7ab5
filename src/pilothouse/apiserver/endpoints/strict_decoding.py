"""From a decoded body to an object of its kind: identity, unknown fields, types, defaults.

Unknown fields are pruned, with a warning (default), an error that lists them (Strict), or silently (Ignore).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from pilothouse.apiserver.endpoints.decoding import Body, field_order
from pilothouse.apiserver.endpoints.write_options import IGNORE, STRICT
from pilothouse.meta import errors
from pilothouse.meta.fields import MOST_PROBLEMS, TYPE_INVALID, WITHHELD, FieldError
from pilothouse.meta.kind import Kind, Object

_EMPTIED = ("labels", "annotations")
"""What is left out when there is nothing in it, so that it has no owner."""
_SHORTEST_SECRET = 4
"""Characters; base64 has no fewer, and shorter texts stand in every message."""


class StrictError(Exception):
    """Unknown or repeated fields under strict validation; the caller chooses the status."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__(", ".join(problems))
        self.problems = problems


def take(kind: Kind, body: Body, validation: str, warnings: list[str]) -> Object:
    """The object in a body, pruned and defaulted. 400 if it is not of ``kind``, 422 for wrong types."""
    obj = identify(kind, body.value)
    try:
        conform(kind, obj, validation, warnings, repeated=body.duplicates, document=body.document)
    except StrictError as strict:
        raise unhandled(kind, f"strict decoding error: {strict}") from None
    return obj


def identify(kind: Kind, value: Any) -> Object:
    """The value, checked to be an object of ``kind``."""
    if not isinstance(value, dict):
        raise errors.bad_request(
            f"the object provided is unrecognized (must be of type {kind.name}): expected an object, "
            f"got {_json_type(value)}"
        )
    obj: Object = value
    for field, expected in (("apiVersion", kind.api_version), ("kind", kind.name)):
        given = obj.get(field, "")
        if not given and kind.native:
            obj[field] = expected
        elif not given:
            raise errors.bad_request(
                f"the object provided is unrecognized (must be of type {kind.name}): {field} is missing"
            )
    if obj["apiVersion"] != kind.api_version:
        raise errors.bad_request(
            f"the API version in the data ({obj['apiVersion']}) does not match the expected API version "
            f"({kind.api_version})"
        )
    if obj["kind"] != kind.name:
        raise errors.bad_request(
            f'{obj["kind"]} in version "{kind.version}" cannot be handled as a {kind.name}'
        )
    metadata = obj.get("metadata")
    if metadata is None:
        obj["metadata"] = {}
    elif not isinstance(metadata, dict):
        raise unhandled(kind, f"metadata must be an object, got {_json_type(metadata)}")
    return obj


def conform(
    kind: Kind,
    obj: Object,
    validation: str,
    warnings: list[str],
    *,
    repeated: list[str] | None = None,
    document: bytes = b"",
    keep_nulls: bool = False,
) -> None:
    """Prune unknown fields, set defaults, refuse wrong types. Changes ``obj`` in place.

    A null where none is allowed counts as absent, unless nulls are kept: then it is of the wrong type.
    """
    repeated = repeated or []
    shape = kind.shape
    fits = shape.accepts(obj)
    unknown = [] if fits else shape.prune(obj)
    if (repeated or unknown) and validation != IGNORE:
        problems = [*repeated, *(f'unknown field "{path}"' for path in unknown)]
        if kind.native and document and unknown:
            # Kubernetes finds both in one pass for native kinds, and prunes custom ones afterwards.
            order = field_order(document)
            problems.sort(key=lambda problem: order.get(problem.split('"')[1], len(order)))
        if validation == STRICT:
            raise StrictError(problems)
        warnings.extend(problems)
    shape.default(obj, accepted=fits, keep_nulls=keep_nulls)
    for field in _EMPTIED:
        if obj["metadata"].get(field) == {}:
            del obj["metadata"][field]
    if not fits and not shape.accepts(obj):
        refuse_misfits(kind, obj)
    kind.default(obj)


def refuse_misfits(kind: Kind, obj: Object) -> None:
    """Raise for a value of the wrong type, which no later step could handle."""
    found = kind.shape.validate(obj)
    problems = [problem for problem in _without_values(kind, found) if problem.reason == TYPE_INVALID]
    # Of so many problems not all were looked for, and one of the others may be such.
    if not problems and len(found) <= MOST_PROBLEMS:
        return
    if kind.native and problems:
        listed = problems[:MOST_PROBLEMS]
        raise unhandled(kind, "; ".join(f"{problem.path}: {problem.detail}" for problem in listed))
    raise invalid(kind, obj, found)


def invalid(kind: Kind, obj: Object, problems: list[FieldError]) -> errors.StatusError:
    """The 422 about an object."""
    name = obj["metadata"].get("name") or obj["metadata"].get("generateName") or ""
    return errors.invalid(kind.name, kind.group, str(name), _without_values(kind, problems))


def _without_values(kind: Kind, problems: list[FieldError]) -> list[FieldError]:
    """The problems, without the values of a confidential kind."""
    if not kind.confidential:
        return problems
    return [problem if _is_public(problem.path) else problem.withheld() for problem in problems]


def redacted(problem: errors.StatusError, live: Object) -> errors.StatusError:
    """A problem with a confidential object without its values: a patch can copy one into a quoted field."""
    metadata = {"annotations": live["metadata"].get("annotations")}
    stored = sorted(
        _texts({**live, "metadata": metadata, "kind": "", "apiVersion": ""}), key=len, reverse=True
    )

    def clean(text: str) -> str:
        for each in stored:
            text = text.replace(each, WITHHELD).replace(msgspec.json.encode(each).decode()[1:-1], WITHHELD)
        return text

    problem.message = clean(problem.message)
    problem.name = clean(problem.name)
    problem.causes = tuple(cause._replace(message=clean(cause.message)) for cause in problem.causes)
    return problem


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str) and len(value) >= _SHORTEST_SECRET:
        yield value
    elif isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _texts(inner)


def _is_public(path: str) -> bool:
    # kubectl keeps a copy of all that it applied in an annotation.
    return path.startswith("metadata.") and not path.startswith("metadata.annotations")


def unhandled(kind: Kind, detail: str) -> errors.StatusError:
    return errors.bad_request(
        f'{kind.name} in version "{kind.version}" cannot be handled as a {kind.name}: {detail}'
    )


def _json_type(value: Any) -> str:
    names = {dict: "object", list: "array", str: "string", bool: "boolean", type(None): "null"}
    return names.get(type(value), "number")
