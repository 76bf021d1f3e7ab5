"""JSON patch (RFC 6902) and JSON merge patch (RFC 7386), as lenient as kube-apiserver.

    json_patch(obj, [{"op": "replace", "path": "/spec/replicas", "value": 3}])
    merge_patch(obj, {"metadata": {"labels": None}})

Arguments are not changed, and results share nothing with them. A malformed patch is a 400, one that does not
fit the object a 422. Messages never quote the object, which may be a Secret. Beyond the RFC, as in
kube-apiserver: an absent member equals null, a negative index counts from the end, and an operation without
``value`` means null.
"""

from __future__ import annotations

import re
from typing import Any, Final

import msgspec

from pilothouse.meta import errors
from pilothouse.meta.apply.merge import detached
from pilothouse.meta.errors import StatusError

MOST_OPERATIONS: Final = 10_000
MOST_COPIED: Final = 3 * 1024 * 1024
"""Bytes that all ``copy`` operations of a patch may copy; a few could fill the memory."""
DEEPEST: Final = 128
"""The maximum nesting of the result: operations can nest deeper than a request body may."""

_OPERATIONS: Final = ("add", "copy", "move", "remove", "replace", "test")
_INDEX: Final = re.compile(r"[-+]?[0-9]{1,9}")
_SHOWN: Final = 100
"""How many characters of a pointer's step a message shows."""


class _Inapplicable(Exception):
    """An operation does not fit the object."""


def json_patch(obj: dict[str, Any], operations: Any) -> dict[str, Any]:
    """The object after all operations. Raises StatusError: 400, 413 or 422."""
    if type(operations) is not list or not all(type(operation) is dict for operation in operations):
        raise errors.bad_request("a JSON patch must be an array of operations")
    if len(operations) > MOST_OPERATIONS:
        raise errors.too_large(
            f"The allowed maximum operations in a JSON patch is {MOST_OPERATIONS}, got {len(operations)}"
        )
    result: Any = detached(obj)
    copied = 0
    try:
        for index, operation in enumerate(operations):
            _check(operation, index)
            try:
                result, size = _applied(result, operation)
            except _Inapplicable as problem:
                raise _failed(index, operation, str(problem)) from None
            copied += size
            if copied > MOST_COPIED:
                raise _failed(index, operation, f"the patch copies more than {MOST_COPIED} bytes")
        patched: Any = detached(result)
    except RecursionError:
        raise _too_deep() from None
    if type(patched) is not dict:
        raise errors.unprocessable("the patch can't be applied: the result is not an object")
    if _is_deeper(patched, DEEPEST):
        raise _too_deep()
    return patched


def merge_patch(obj: dict[str, Any], patch: Any) -> dict[str, Any]:
    """The object with the patch merged in; null removes. Raises StatusError 400."""
    if type(patch) is not dict:
        raise errors.bad_request("a JSON merge patch must be an object")
    return detached(_merged(obj, patch))


def _merged(target: Any, patch: dict[str, Any]) -> dict[str, Any]:
    merged = dict(target) if type(target) is dict else {}
    for field, value in patch.items():
        if value is None:
            merged.pop(field, None)
        elif type(value) is dict:
            merged[field] = _merged(merged.get(field), value)
        else:
            merged[field] = value
    return merged


def _check(operation: dict[str, Any], index: int) -> None:
    name = operation.get("op")
    if name not in _OPERATIONS:
        raise _failed(
            index, operation, f"unknown operation {name!r}: expected one of {', '.join(_OPERATIONS)}"
        )
    for pointer in ("path", "from") if name in ("move", "copy") else ("path",):
        if type(operation.get(pointer)) is not str:
            raise _failed(index, operation, f"{pointer!r} must be a JSON pointer such as /spec/replicas")
        if operation[pointer].count("/") > DEEPEST:
            raise _failed(index, operation, f"{pointer!r} leads deeper than {DEEPEST} levels")


def _applied(document: Any, operation: dict[str, Any]) -> tuple[Any, int]:
    """The document after one operation, changed in place, and how many bytes it copied."""
    name, path, value = operation["op"], operation["path"], operation.get("value")
    copied = 0
    if name == "test":
        found = document if path == "" else _member(*_located(document, path))
        # As text: in Python 1 equals 1.0 and true.
        if _canonical(found) != _canonical(value):
            raise _Inapplicable("the value there is another")
        return document, 0
    if name == "replace" and path == "":
        return _copy(value), 0
    if name == "move":
        value = _removed(*_located(document, operation["from"]))
    elif name == "copy":
        encoded = msgspec.json.encode(_member(*_located(document, operation["from"])))
        value, copied = msgspec.json.decode(encoded), len(encoded)
    else:
        value = _copy(value)
    container, key = _located(document, path)
    if name == "remove":
        _removed(container, key)
    elif type(container) is dict:
        container[key] = value
    elif name == "replace":
        container[_position(key, len(container))] = value
    else:
        container.insert(len(container) if key == "-" else _position(key, len(container) + 1), value)
    return document, copied


def _located(document: Any, pointer: str) -> tuple[Any, str]:
    """The container that a pointer's last step is in, and that step, which need not exist."""
    if not pointer.startswith("/"):
        raise _Inapplicable(f"{pointer[:_SHOWN]!r} is no JSON pointer such as /spec/replicas")
    *steps, key = (step.replace("~1", "/").replace("~0", "~") for step in pointer.split("/")[1:])
    container = document
    for step in steps:
        container = _member(container, step) if type(container) in (dict, list) else None
    if type(container) not in (dict, list):
        raise _Inapplicable(f"what should hold {pointer[:_SHOWN]} is absent, or neither an object nor a list")
    return container, key


def _member(container: Any, key: str) -> Any:
    if type(container) is dict:
        return container.get(key)
    return container[_position(key, len(container))]


def _removed(container: Any, key: str) -> Any:
    """Remove a member from its container and return it."""
    if type(container) is list:
        return container.pop(_position(key, len(container)))
    if key not in container:
        raise _Inapplicable(f"there is no member {key[:_SHOWN]!r}")
    return container.pop(key)


def _position(key: str, length: int) -> int:
    """A list index; a negative one counts from the end."""
    if not _INDEX.fullmatch(key):
        raise _Inapplicable(f"{key[:_SHOWN]!r} is no index of a list")
    index = int(key)
    if not -length <= index < length:
        raise _Inapplicable(f"index {index} is outside the list, which has {length} places")
    return index % length


def _copy(value: Any) -> Any:
    """A copy, because later operations must not change the patch: it is applied again after a conflict."""
    return msgspec.json.decode(msgspec.json.encode(value)) if type(value) in (dict, list) else value


def _canonical(value: Any) -> bytes:
    return msgspec.json.encode(value, order="sorted")


def _is_deeper(value: Any, levels: int) -> bool:
    """Iterative, so that no depth can exhaust the stack."""
    level = [value]
    for _ in range(levels):
        level = [
            child
            for each in level
            for child in (each.values() if type(each) is dict else each)
            if type(child) is dict or type(child) is list
        ]
        if not level:
            return False
    return True


def _too_deep() -> StatusError:
    return errors.unprocessable(
        f"the patch can't be applied: the result is nested deeper than {DEEPEST} levels"
    )


def _failed(index: int, operation: dict[str, Any], why: str) -> StatusError:
    what = f"{operation.get('op')} {operation.get('path')}"
    return errors.unprocessable(f"the patch can't be applied: operation {index} ({what[:200]}): {why[:500]}")
