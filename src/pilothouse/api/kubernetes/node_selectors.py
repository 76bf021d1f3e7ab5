"""Validation of node selectors, in pods and in volumes.

yield from check_node_selector(spec["nodeAffinity"]["required"], "spec.nodeAffinity.required")
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pilothouse.api.kubernetes.shared_checks import Problems, follows
from pilothouse.meta.fields import FieldError, element
from pilothouse.meta.names import qualified_name

_NAME: Final = "metadata.name"
_UNKNOWN_OPERATOR: Final = "not a valid selector operator"


def check_node_selector(selector: Mapping[str, Any], path: str) -> Problems:
    """Problems of alternative terms; there must be at least one."""
    terms = selector.get("nodeSelectorTerms") or ()
    if not terms:
        yield FieldError.required(f"{path}.nodeSelectorTerms", "must have at least one node selector term")
    for index, term in enumerate(terms):
        yield from check_node_selector_term(term, element(f"{path}.nodeSelectorTerms", index))


def check_node_selector_term(term: Mapping[str, Any], path: str) -> Problems:
    for index, expression in enumerate(term.get("matchExpressions") or ()):
        yield from _check_expression(expression, element(f"{path}.matchExpressions", index))
    for index, field in enumerate(term.get("matchFields") or ()):
        yield from _check_field(field, element(f"{path}.matchFields", index))


def _check_expression(expression: Mapping[str, Any], path: str) -> Problems:
    operator, values = expression.get("operator", ""), expression.get("values") or ()
    match operator:
        case "In" | "NotIn":
            if not values:
                detail = "must be specified when `operator` is 'In' or 'NotIn'"
                yield FieldError.required(f"{path}.values", detail)
        case "Exists" | "DoesNotExist":
            if values:
                detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
                yield FieldError.forbidden(f"{path}.values", detail)
        case "Gt" | "Lt":
            if len(values) != 1:
                detail = "must be specified single value when `operator` is 'Lt' or 'Gt'"
                yield FieldError.required(f"{path}.values", detail)
        case _:
            yield FieldError.invalid(f"{path}.operator", operator, _UNKNOWN_OPERATOR)
    yield from follows(f"{path}.key", expression.get("key", ""), qualified_name)


def _check_field(field: Mapping[str, Any], path: str) -> Problems:
    operator, values = field.get("operator", ""), field.get("values") or ()
    if operator not in ("In", "NotIn"):
        yield FieldError.invalid(f"{path}.operator", operator, _UNKNOWN_OPERATOR)
    elif len(values) != 1:
        detail = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"
        yield FieldError.required(f"{path}.values", detail)
    if field.get("key") != _NAME:
        yield FieldError.invalid(f"{path}.key", field.get("key", ""), "not a valid field selector key")
