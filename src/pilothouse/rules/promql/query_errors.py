"""Why an expression has no result."""

from __future__ import annotations


class QueryError(Exception):
    """The series do not allow it, such as several matches where there may be one. As in Prometheus."""


class NotInSubset(Exception):
    """The expression needs what is not implemented; the message names it."""
