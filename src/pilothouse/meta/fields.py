"""Field errors in Kubernetes' words.

    FieldError.not_supported("spec.engine", "zz", ["pg", "mysql"])
    # spec.engine: Unsupported value: "zz": supported values: "pg", "mysql"

Validation returns all problems; ``errors.invalid`` turns them into a 422 with one cause each.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import msgspec

REQUIRED = "FieldValueRequired"
INVALID = "FieldValueInvalid"
NOT_SUPPORTED = "FieldValueNotSupported"
DUPLICATE = "FieldValueDuplicate"
FORBIDDEN = "FieldValueForbidden"
TOO_LONG = "FieldValueTooLong"
TOO_MANY = "FieldValueTooMany"
TYPE_INVALID = "FieldValueTypeInvalid"
NOT_FOUND = "FieldValueNotFound"

MOST_PROBLEMS = 1000
"""Validation stops after this many problems of an object: each is longer than its field."""

_HEADLINES = {
    REQUIRED: "Required value",
    INVALID: "Invalid value",
    NOT_SUPPORTED: "Unsupported value",
    DUPLICATE: "Duplicate value",
    FORBIDDEN: "Forbidden",
    TOO_LONG: "Too long",
    TOO_MANY: "Too many",
    TYPE_INVALID: "Invalid value",
    NOT_FOUND: "Not found",
}
WITHHELD = "<redacted>"
"""Replaces a confidential value."""
_WITHOUT_VALUE = {REQUIRED, FORBIDDEN, TOO_LONG, TOO_MANY}


class FieldError(NamedTuple):
    """One problem at one field path (``spec.users[1].name``)."""

    reason: str
    path: str
    detail: str
    value: Any = None

    @property
    def message(self) -> str:
        """The text of the cause, without the path."""
        headline = _HEADLINES[self.reason]
        if self.reason not in _WITHOUT_VALUE:
            headline = f"{headline}: {msgspec.json.encode(self.value).decode()}"
        return f"{headline}: {self.detail}" if self.detail else headline

    def __str__(self) -> str:
        return f"{self.path}: {self.message}"

    def withheld(self) -> FieldError:
        """The same problem without the value."""
        quoted = msgspec.json.encode(self.value).decode()
        return self._replace(value=WITHHELD, detail=self.detail.replace(quoted, f'"{WITHHELD}"'))

    @classmethod
    def required(cls, path: str, detail: str = "") -> FieldError:
        return cls(REQUIRED, path, detail)

    @classmethod
    def invalid(cls, path: str, value: Any, detail: str) -> FieldError:
        return cls(INVALID, path, detail, value)

    @classmethod
    def type_invalid(cls, path: str, value: Any, detail: str) -> FieldError:
        return cls(TYPE_INVALID, path, detail, value)

    @classmethod
    def not_supported(cls, path: str, value: Any, supported: Iterable[str]) -> FieldError:
        listed = ", ".join(msgspec.json.encode(each).decode() for each in supported)
        return cls(NOT_SUPPORTED, path, f"supported values: {listed}", value)

    @classmethod
    def duplicate(cls, path: str, value: Any) -> FieldError:
        return cls(DUPLICATE, path, "", value)

    @classmethod
    def forbidden(cls, path: str, detail: str) -> FieldError:
        return cls(FORBIDDEN, path, detail)

    @classmethod
    def too_long(cls, path: str, limit: int) -> FieldError:
        return cls(TOO_LONG, path, f"may not be more than {limit} bytes")

    @classmethod
    def too_many(cls, path: str, count: int, limit: int) -> FieldError:
        return cls(TOO_MANY, path, f"{count}: must have at most {limit} items")

    @classmethod
    def not_found(cls, path: str, value: Any) -> FieldError:
        return cls(NOT_FOUND, path, "", value)


def child(path: str, name: str) -> str:
    """The path of a field inside ``path``; the root's path is empty."""
    return f"{path}.{name}" if path else name


def element(path: str, index: int) -> str:
    """The path of a list element."""
    return f"{path}[{index}]"


def entry(path: str, key: str) -> str:
    """The path of a map entry (``metadata.labels[a/b]``)."""
    return f"{path}[{key}]"
