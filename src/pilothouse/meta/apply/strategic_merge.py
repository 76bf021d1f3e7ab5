"""Strategic merge patch: the schema says which lists are merged, and by which key.

    strategic_merge(pod, {"spec": {"containers": [{"name": "web", "image": "nginx:2"}]}}, schema)

A list whose strategy is ``merge`` is merged, by ``merge_key`` or, for scalars, by value; others are replaced.
Directives:

``$patch: replace | delete | merge``   on a map or a list item: instead of merging it
``$retainKeys: [a, b]``                drop the map's other fields
``$deleteFromPrimitiveList/f: [x]``    remove values from the list ``f``
``$setElementOrder/f: […]``            the order of the list ``f``, instead of the order in the patch

The argument is not changed, and the result shares nothing with it. An invalid patch is a 400 with the field's
path.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from pilothouse.meta import errors
from pilothouse.meta.apply.merge import detached
from pilothouse.meta.errors import StatusError
from pilothouse.meta.schema.model import Schema

_PATCH: Final = "$patch"
_RETAIN: Final = "$retainKeys"
_ORDER: Final = "$setElementOrder/"
_DELETE: Final = "$deleteFromPrimitiveList/"
_CONTAINERS: Final = (dict, list)
_UNKNOWN: Final = Schema()


def strategic_merge(obj: dict[str, Any], patch: Any, schema: Schema) -> dict[str, Any]:
    """The object with the patch merged in. Raises StatusError 400."""
    if type(patch) is not dict:
        raise errors.bad_request("a strategic merge patch must be an object")
    return detached(_merge_map(obj, patch, _resolved(schema), ""))


def _merge_map(live: dict[str, Any], patch: dict[str, Any], schema: Schema, path: str) -> dict[str, Any]:
    directive = patch.get(_PATCH)
    if directive == "delete":
        return {}
    if directive == "replace":
        return _plain_map(patch, path)
    if directive not in (None, "merge"):
        raise _misuse(path, f"{_PATCH} must be replace, delete or merge")
    merged = _retained(live, patch, path)
    for field, value in patch.items():
        if field in (_PATCH, _RETAIN) or field.startswith((_ORDER, _DELETE)):
            continue
        if value is None:
            merged.pop(field, None)
            continue
        merged[field] = _merge_field(merged, field, value, patch, schema, path)
    for field in [field for field in patch if field.startswith((_ORDER, _DELETE))]:
        name = field.partition("/")[2]
        if name not in patch and name in merged:
            merged[name] = _merge_field(merged, name, [], patch, schema, path)
    return merged


def _merge_field(
    live: dict[str, Any], field: str, value: Any, patch: dict[str, Any], schema: Schema, path: str
) -> Any:
    at = f"{path}.{field}"
    child = _child(schema, field)
    strategies = child.merge_strategy.split(",")
    present = live.get(field)
    if type(value) is dict:
        if type(present) is not dict:
            present = {}
        if "replace" in strategies:
            return _plain(value, at)
        return _merge_map(present, value, child, at)
    if type(value) is not list:
        return value
    deleted = _directive_list(patch, f"{_DELETE}{field}", at)
    order = _directive_list(patch, f"{_ORDER}{field}", at)
    if "merge" not in strategies:
        if field not in patch:
            # Only a directive names the list, and it is not one that is merged.
            raise _misuse(at, "$setElementOrder and $deleteFromPrimitiveList work on merged lists only")
        return _plain(value, at)
    present = present if type(present) is list else []
    if child.merge_key:
        return _merge_objects(present, value, order, child, at)
    return _merge_values(present, value, deleted, order, at)


def _merge_values(
    live: list[Any], patch: list[Any], deleted: list[Any] | None, order: list[Any] | None, path: str
) -> list[Any]:
    for item in patch:
        _check_key(item, path)
    gone = {_check_key(item, path) for item in deleted or ()}
    merged = [item for item in live if type(item) in _CONTAINERS or item not in gone]
    present = {item for item in merged if type(item) not in _CONTAINERS}
    for item in patch:
        if item not in present:
            present.add(item)
            merged.append(item)
    return _ordered(merged, patch, live, order, lambda item: item, path)


def _merge_objects(
    live: list[Any], patch: list[Any], order: list[Any] | None, schema: Schema, path: str
) -> list[Any]:
    key = schema.merge_key
    of_item = _resolved(schema.items or _UNKNOWN)
    replacing = any(type(item) is dict and item.get(_PATCH) == "replace" for item in patch)
    # By key, in order; items that share a key or have none can be deleted or kept, not merged.
    merged: dict[Any, list[Any]] = {}
    for item in () if replacing else live:
        merged.setdefault(_key_of(item, key), []).append(item)
    named: list[Any] = []
    for index, item in enumerate(patch):
        at = f"{path}[{index}]"
        if type(item) is not dict:
            raise _misuse(at, "this list holds objects")
        directive = item.get(_PATCH)
        if directive == "replace" and len(item) == 1:
            continue
        if item.get(key) is None:
            raise _misuse(at, f"the item does not contain the merge key {key!r}")
        value = _check_key(item[key], at)
        if directive == "delete":
            merged.pop(value, None)
            continue
        named.append(item)
        if replacing:
            merged.setdefault(value, []).append(_plain_map(item, at))
        elif value in merged:
            merged[value][0] = _merge_map(merged[value][0], item, of_item, at)
        else:
            merged[value] = [_merge_map({}, item, of_item, at)]
    result = _in_live_order(merged, live, key)
    keys = None if order is None else [_key_of(each, key) if type(each) is dict else each for each in order]
    return _ordered(result, named, live, keys, lambda item: _key_of(item, key), path)


def _in_live_order(merged: dict[Any, list[Any]], live: list[Any], key: str) -> list[Any]:
    """Existing items keep their places, new ones follow."""
    waiting = {value: list(reversed(items)) for value, items in merged.items()}
    result = [waiting[_key_of(item, key)].pop() for item in live if waiting.get(_key_of(item, key))]
    for items in waiting.values():
        result.extend(reversed(items))
    return result


def _ordered(
    merged: list[Any],
    patch: list[Any],
    live: list[Any],
    order: list[Any] | None,
    key_of: Callable[[Any], Any],
    path: str,
) -> list[Any]:
    """``merged`` in the order asked for, else that of the patch; other items keep their relative place.

    Where the live list has no order between two items, the named one comes first.
    """
    asked = [key_of(item) for item in patch] if order is None else order
    place = {_check_key(value, path): index for index, value in reversed(list(enumerate(asked)))}
    places = [place.get(key_of(item), -1) for item in patch]
    if -1 in places or places != sorted(places):
        raise _misuse(path, "the items of the patch are not in the order of $setElementOrder")
    before = {_hashable(key_of(item)): index for index, item in reversed(list(enumerate(live)))}
    named: list[Any] = []
    others: list[Any] = []
    for item in merged:
        (named if _hashable(key_of(item)) in place else others).append(item)
    named.sort(key=lambda item: place[key_of(item)])
    result: list[Any] = []
    first = other = 0
    while first < len(named) and other < len(others):
        mine, theirs = before.get(key_of(named[first])), before.get(_hashable(key_of(others[other])))
        if mine is not None and theirs is not None and theirs < mine:
            result.append(others[other])
            other += 1
        else:
            result.append(named[first])
            first += 1
    return result + named[first:] + others[other:]


def _check_key(value: Any, path: str) -> Any:
    if type(value) in _CONTAINERS:
        raise _misuse(path, "a list is merged by plain values")
    return value


def _hashable(value: Any) -> Any:
    return None if type(value) in _CONTAINERS else value


def _retained(live: dict[str, Any], patch: dict[str, Any], path: str) -> dict[str, Any]:
    if _RETAIN not in patch:
        return dict(live)
    keys = patch[_RETAIN]
    if type(keys) is not list:
        raise _misuse(path, f"{_RETAIN} must be a list of field names")
    for field in patch:
        if not field.startswith("$") and patch[field] is not None and field not in keys:
            raise _misuse(path, f"{_RETAIN} does not name the field {field!r}, which the patch sets")
    return {field: value for field, value in live.items() if field in keys}


def _plain(value: Any, path: str) -> Any:
    """A replacement from the patch, without directives and nulls."""
    if type(value) is list:
        return [
            _plain(item, path)
            for item in value
            if not (type(item) is dict and len(item) == 1 and _PATCH in item)
        ]
    return _plain_map(value, path) if type(value) is dict else value


def _plain_map(value: dict[str, Any], path: str) -> dict[str, Any]:
    return {
        field: _plain(each, f"{path}.{field}")
        for field, each in value.items()
        if each is not None and field not in (_PATCH, _RETAIN) and not field.startswith((_ORDER, _DELETE))
    }


def _directive_list(patch: dict[str, Any], directive: str, path: str) -> list[Any] | None:
    value = patch.get(directive)
    if value is not None and type(value) is not list:
        raise _misuse(path, f"{directive} must be a list")
    return value


def _key_of(item: Any, key: str) -> Any:
    return _hashable(item.get(key)) if type(item) is dict else None


def _child(schema: Schema, field: str) -> Schema:
    return _resolved(schema.properties.get(field) or schema.additional or _UNKNOWN)


def _resolved(schema: Schema) -> Schema:
    """The schema behind a reference that is wrapped in ``allOf``."""
    wrapped = len(schema.all_of) == 1 and not schema.type and not schema.properties
    return schema.all_of[0] if wrapped else schema


def _misuse(path: str, why: str) -> StatusError:
    return errors.bad_request(
        f"the strategic merge patch is wrong at {path.lstrip('.') or 'its root'}: {why}"
    )
