"""A schema, compiled: the four things one does with it, each as fast as it can be.

``accepts`` is the common case: one call into compiled code says that nothing is unknown, missing or wrong. Only an
object that fails it is walked in Python, to prune, to explain.
"""

from __future__ import annotations

from typing import Any

from pilothouse.meta.fields import FieldError
from pilothouse.meta.schema import Schema


class Shape:
    """A compiled schema. Objects are changed in place."""

    def __init__(self, schema: Schema) -> None:
        self.schema = schema

    def accepts(self, obj: dict[str, Any]) -> bool:
        """True if no field is unknown and the schema finds no fault (CEL rules are not looked at)."""
        raise NotImplementedError

    def prune(self, obj: dict[str, Any]) -> list[str]:
        """Remove unknown fields; their paths, in the order met (``spec.users[0].q``)."""
        raise NotImplementedError

    def default(self, obj: dict[str, Any]) -> None:
        """Drop nulls that the schema doesn't allow, then fill in defaults."""
        raise NotImplementedError

    def validate(self, obj: dict[str, Any], old: dict[str, Any] | None = None) -> list[FieldError]:
        """Every fault, CEL rules included. Given the stored object, transition rules run and unchanged faults pass."""
        raise NotImplementedError
