"""JSON patch (RFC 6902) and JSON merge patch (RFC 7386).

    json_patch(obj, [{"op": "replace", "path": "/spec/replicas", "value": 3}])
    merge_patch(obj, {"metadata": {"labels": None}})

Neither changes what it is given, and the result shares nothing with it. A patch that is no patch is a 400; one that
can't be applied to this object a 422 that says which operation failed.
"""

from __future__ import annotations

from typing import Any, Final

import jsonpatch
import jsonpointer
import msgspec

from pilothouse.meta import errors
from pilothouse.meta.errors import StatusError
from pilothouse.meta.merging import detached

MOST_OPERATIONS: Final = 10_000
MOST_COPIED: Final = 3 * 1024 * 1024
"""How much all ``copy`` operations of a patch may copy together, in bytes; a few of them could fill the memory."""
DEEPEST: Final = 128
"""How deeply the result may be nested: operations can stack what they move about higher than any request could be."""

_SHOWN: Final = 100
"""So many characters of a value are shown in a message."""
_OPERATIONS: Final = ("add", "copy", "move", "remove", "replace", "test")
_FAILURES: Final = (
    jsonpatch.JsonPatchException,
    jsonpointer.JsonPointerException,
    KeyError,
    IndexError,
    TypeError,
    AttributeError,
)


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
            if operation["op"] == "copy":
                copied += _size(result, operation, index)
                if copied > MOST_COPIED:
                    raise _failed(index, operation, f"the patch copies more than {MOST_COPIED} bytes")
            result = _applied(result, operation, index)
        patched: Any = detached(result)
    except RecursionError:
        raise _too_deep() from None
    if type(patched) is not dict:
        raise errors.unprocessable("the patch can't be applied: the result is not an object")
    if _is_deeper(patched, DEEPEST):
        raise _too_deep()
    return patched


def merge_patch(obj: dict[str, Any], patch: Any) -> dict[str, Any]:
    """The object with the patch laid over it; null removes. Raises StatusError 400."""
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


def _applied(document: Any, operation: dict[str, Any], index: int) -> Any:
    if operation["op"] == "test" and not _present(document, operation["path"]):
        raise _failed(index, operation, "there is nothing to test")
    try:
        return jsonpatch.JsonPatch([operation]).apply(document, in_place=True)
    except jsonpatch.JsonPatchTestFailed:
        found = msgspec.json.encode(jsonpointer.JsonPointer(operation["path"]).resolve(document)).decode()
        raise _failed(index, operation, f"the value there is {found[:_SHOWN]}") from None
    except _FAILURES as failure:
        raise _failed(index, operation, str(failure) or type(failure).__name__) from None


def _is_deeper(value: Any, levels: int) -> bool:
    """Level by level, so that no depth can exhaust the stack."""
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


def _present(document: Any, path: Any) -> bool:
    try:
        jsonpointer.JsonPointer(path).resolve(document)
    except _FAILURES:
        return False
    return True


def _size(document: Any, operation: dict[str, Any], index: int) -> int:
    try:
        value = jsonpointer.JsonPointer(operation["from"]).resolve(document)
    except _FAILURES:
        raise _failed(index, operation, "there is nothing to copy") from None
    return len(msgspec.json.encode(value))


def _failed(index: int, operation: dict[str, Any], why: str) -> StatusError:
    what = f"{operation.get('op')} {operation.get('path')}"
    return errors.unprocessable(f"the patch can't be applied: operation {index} ({what[:200]}): {why[:500]}")
