"""Full validation: every fault of an object, in Kubernetes' words. CEL rules are in ``cel.validation_rules``.

    faults(schema, {"spec": {"engine": "zz"}})
    # [spec.engine: Unsupported value: "zz": supported values: "pg", "mysql"]

With the stored object, unchanged faulty parts are tolerated, so that an object stored under a laxer schema
can be edited elsewhere. Parts are matched by field name, map key, and the keys of map lists; any other list
is unchanged as a whole or not at all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache
from itertools import islice
from typing import Any, Final

import jsonschema_rs
import msgspec

from pilothouse.meta.fields import MOST_PROBLEMS, FieldError, child, element
from pilothouse.meta.schema.formats import FORMATS, INTEGER_RANGES, compile_pattern
from pilothouse.meta.schema.model import UNSET, Schema
from pilothouse.meta.schema.regular_expressions import MAX_STEPS, size_of

MAX_DEPTH: Final = 256
"""The maximum nesting of an object."""

_SHOWN: Final = 100
"""How many characters of a text that is too long are shown."""

_canonical = msgspec.json.Encoder(order="deterministic").encode


def faults(schema: Schema, obj: Any, old: Any = UNSET) -> list[FieldError]:
    """All faults, in the order of the object's fields; ``old`` is the stored object on update."""
    if deeper_than(obj, MAX_DEPTH):
        detail = f"must not be nested more than {MAX_DEPTH} levels deep"
        return [FieldError.invalid("<nil>", "object", detail)]
    if old is not UNSET and deeper_than(old, MAX_DEPTH):
        old = UNSET
    return _Faults().node(schema, obj, old, "")


def deeper_than(value: Any, limit: int) -> bool:
    """True if lists and maps are nested more than ``limit`` deep. Iterative."""
    level = [value]
    for _ in range(limit + 1):
        level = [
            inner
            for outer in level
            if isinstance(outer, (dict, list))
            for inner in (outer.values() if isinstance(outer, dict) else outer)
            if isinstance(inner, (dict, list))
        ]
        if not level:
            return False
    return True


def type_name(value: Any) -> str:
    """The JSON Schema type of a decoded value."""
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case str():
            return "string"
        case int():
            return "integer"
        case float():
            return "number"
        case dict():
            return "object"
        case list():
            return "array"
    raise TypeError(f"{type(value).__name__} is no JSON type")


def correlate(schema: Schema, old: Any) -> Callable[[Any], Any]:
    """For a list: a function that finds the old element of a new one, or UNSET."""
    if schema.list_type != "map" or not isinstance(old, list):
        return lambda item: UNSET
    known: dict[bytes, Any] = {}
    for item in old:
        if isinstance(item, dict):
            known.setdefault(list_key(schema, item), item)
    return lambda item: known.get(list_key(schema, item), UNSET) if isinstance(item, dict) else UNSET


def list_key(schema: Schema, item: dict[str, Any]) -> bytes:
    """What identifies an element of a map list."""
    return _canonical([item.get(key) for key in schema.list_map_keys])


def unchanged(value: Any, old: Any) -> bool:
    """True if both are the same JSON; unlike ``==``, 1 differs from true."""
    return old is not UNSET and _canonical(value) == _canonical(old)


class _Faults:
    def __init__(self) -> None:
        self.steps = 0
        """The cost of pattern matches so far; see ``regular_expressions``."""

    def node(self, schema: Schema, value: Any, old: Any, path: str) -> list[FieldError]:
        """The faults of a structural node."""
        found = self.limits(schema, value, path)
        if isinstance(value, dict):
            before = old if isinstance(old, dict) else {}
            for name, inner in value.items():
                node = schema.properties.get(name, schema.additional)
                if node is not None:
                    found += self.node(node, inner, before.get(name, UNSET), child(path, name))
                if len(found) > MOST_PROBLEMS:
                    break
            found += _missing(schema, value, path)
        elif isinstance(value, list):
            if schema.items is not None:
                match = correlate(schema, old)
                for index, inner in enumerate(value):
                    found += self.node(schema.items, inner, match(inner), element(path, index))
                    if len(found) > MOST_PROBLEMS:
                        break
            found += islice(_duplicates(schema, value, path), MOST_PROBLEMS)
        if found and unchanged(value, old):
            return []
        return found

    def junctor(self, schema: Schema, value: Any, path: str) -> list[FieldError]:
        """The faults by a node inside ``allOf``, ``anyOf``, ``oneOf`` or ``not``: it only limits values."""
        found = self.limits(schema, value, path, typed=bool(schema.type or schema.int_or_string))
        if isinstance(value, dict):
            for name, inner in value.items():
                node = schema.properties.get(name, schema.additional)
                if node is not None:
                    found += self.junctor(node, inner, child(path, name))
            found += _missing(schema, value, path)
        elif isinstance(value, list) and schema.items is not None:
            for index, inner in enumerate(value):
                found += self.junctor(schema.items, inner, element(path, index))
        return found

    def limits(self, schema: Schema, value: Any, path: str, *, typed: bool = True) -> list[FieldError]:
        found: list[FieldError] = []
        if typed:
            found += _wrong_type(schema, value, path)
        found += self.junctions(schema, value, path)
        if schema.enum and not any(_same(value, allowed) for allowed in schema.enum):
            supported = [each if isinstance(each, str) else _canonical(each).decode() for each in schema.enum]
            found.append(FieldError.not_supported(path, value, supported))
        match value:
            case str():
                found += _text(schema, value, path)
                if schema.pattern:
                    found += self.pattern(schema.pattern, value, path)
            case bool():
                pass
            case int() | float():
                found += _number(schema, value, path)
            case dict():
                found += _size(path, len(value), schema.min_properties, schema.max_properties, "properties")
            case list():
                found += _size(path, len(value), schema.min_items, schema.max_items, "items")
        return found

    def pattern(self, pattern: str, value: str, path: str) -> Iterable[FieldError]:
        """Matching takes time by text times pattern, so the total is limited per object."""
        self.steps += (len(value) if value.isascii() else len(value.encode())) * size_of(pattern)
        if self.steps > MAX_STEPS:
            shown = value[:_SHOWN] + "..." if len(value) > _SHOWN else value
            yield _invalid(path, f"{path} in body is too long to be matched with '{pattern}'", shown)
        elif not compile_pattern(pattern).matches(value):
            yield _invalid(path, f"{path} in body should match '{pattern}'", value)

    def junctions(self, schema: Schema, value: Any, path: str) -> list[FieldError]:
        found: list[FieldError] = []
        if schema.any_of:
            branches = [self.junctor(each, value, path) for each in schema.any_of]
            if all(branches):
                found.append(_invalid(path, f'"{path}" must validate at least one schema (anyOf)'))
                found += _closest(branches)
        if schema.one_of:
            branches = [self.junctor(each, value, path) for each in schema.one_of]
            valid = sum(not branch for branch in branches)
            if valid != 1:
                how = "Found none valid" if not valid else f"Found {valid} valid alternatives"
                found.append(_invalid(path, f'"{path}" must validate one and only one schema (oneOf). {how}'))
                if not valid:
                    found += _closest(branches)
        if schema.all_of:
            branches = [self.junctor(each, value, path) for each in schema.all_of]
            if any(branches):
                none = ". None validated" if all(branches) else ""
                found += [fault for branch in branches for fault in branch]
                found.append(_invalid(path, f'"{path}" must validate all the schemas (allOf){none}'))
        if schema.not_ is not None and not self.junctor(schema.not_, value, path):
            found.append(_invalid(path, f'"{path}" must not validate the schema (not)'))
        return found


def _closest(branches: list[list[FieldError]]) -> list[FieldError]:
    """The faults of the alternative that comes closest to matching."""
    return min(branches, key=lambda branch: len(branch))


def _invalid(path: str, detail: str, value: Any = "") -> FieldError:
    return FieldError.invalid(path or "<nil>", value, detail)


def _wrong_type(schema: Schema, value: Any, path: str) -> Iterable[FieldError]:
    actual = type_name(value)
    if value is None:
        if schema.nullable or not (schema.type or schema.int_or_string):
            return
    elif schema.int_or_string:
        if actual in ("integer", "string") or _integral(value):
            return
        if schema.format == "quantity" and actual == "number":
            return
    elif (
        not schema.type
        or schema.type == actual
        or (schema.type == "number" and actual == "integer")
        or (schema.type == "integer" and _integral(value))
    ):
        return
    wanted = "integer,string" if schema.int_or_string else schema.type
    yield FieldError.type_invalid(
        path or "<nil>", actual, f'{path} in body must be of type {wanted}: "{actual}"'
    )


def _integral(value: Any) -> bool:
    return isinstance(value, float) and value.is_integer()


def _same(value: Any, allowed: Any) -> bool:
    if isinstance(value, bool) or isinstance(allowed, bool) or isinstance(value, (dict, list)):
        return unchanged(value, allowed)
    return bool(value == allowed)


def _missing(schema: Schema, value: dict[str, Any], path: str) -> Iterable[FieldError]:
    return (FieldError.required(child(path, name)) for name in schema.required if name not in value)


def _duplicates(schema: Schema, value: list[Any], path: str) -> Iterable[FieldError]:
    if schema.list_type not in ("set", "map"):
        return
    seen: set[bytes] = set()
    for index, item in enumerate(value):
        shown = item
        if schema.list_type == "map":
            if not isinstance(item, dict):
                continue
            shown = {key: item[key] for key in schema.list_map_keys if key in item}
            key = list_key(schema, item)
        else:
            key = _canonical(item)
        if key in seen:
            yield FieldError.duplicate(element(path, index), shown)
        seen.add(key)


def _text(schema: Schema, value: str, path: str) -> Iterable[FieldError]:
    if schema.max_length is not None and len(value) > schema.max_length:
        yield FieldError.too_long(path, schema.max_length)
    if schema.min_length is not None and len(value) < schema.min_length:
        yield _invalid(path, f"{path} in body should be at least {schema.min_length} chars long", value)
    check = FORMATS.get(schema.format)
    if check is not None and not check(value):
        quoted = _canonical(value).decode()
        yield FieldError.type_invalid(
            path, value, f"{path} in body must be of type {schema.format}: {quoted}"
        )


def _number(schema: Schema, value: int | float, path: str) -> Iterable[FieldError]:
    if schema.maximum is not None:
        over = value >= schema.maximum if schema.exclusive_maximum else value > schema.maximum
        if over:
            how = "less than" if schema.exclusive_maximum else "less than or equal to"
            yield _invalid(path, f"{path} in body should be {how} {_plain(schema.maximum)}", value)
    if schema.minimum is not None:
        under = value <= schema.minimum if schema.exclusive_minimum else value < schema.minimum
        if under:
            how = "greater than" if schema.exclusive_minimum else "greater than or equal to"
            yield _invalid(path, f"{path} in body should be {how} {_plain(schema.minimum)}", value)
    if schema.multiple_of is not None and not _divides(schema.multiple_of).is_valid(value):
        yield _invalid(path, f"{path} in body should be a multiple of {_plain(schema.multiple_of)}", value)
    limits = INTEGER_RANGES.get(schema.format) if schema.type == "integer" else None
    if limits is not None and not limits[0] <= value <= limits[1]:
        yield _invalid(path, f"{path} in body must fit {schema.format}: {limits[0]} to {limits[1]}", value)


def _plain(number: int | float) -> str:
    return str(int(number)) if float(number).is_integer() else str(number)


@lru_cache(maxsize=256)
def _divides(factor: int | float) -> jsonschema_rs.Draft202012Validator:
    # Decimal fractions have no exact binary form; the compiled check knows how to compare them.
    return jsonschema_rs.Draft202012Validator({"multipleOf": factor})


def _size(path: str, size: int, low: int | None, high: int | None, noun: str) -> Iterable[FieldError]:
    if high is not None and size > high:
        yield FieldError.too_many(path, size, high)
    if low is not None and size < low:
        yield _invalid(path, f"{path} in body should have at least {low} {noun}", size)
