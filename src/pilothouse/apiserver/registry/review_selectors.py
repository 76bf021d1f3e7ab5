"""The selectors of an access review, as text.

    label_selector({"requirements": [{"key": "app", "operator": "In", "values": ["web"]}]})  # "app in (web)"
    field_selector({"rawSelector": "spec.nodeName=n1"})                                      # the same text

Requirements that can't be expressed are left out, which only makes the review stricter.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pilothouse.meta.selectors import EQUALS, NOT_EQUALS, FieldRequirement


def label_selector(selector: Any) -> str:
    """Of a review's ``labelSelector``."""
    return _text(selector, _label)


def field_selector(selector: Any) -> str:
    """Of a review's ``fieldSelector``."""
    return _text(selector, _field)


def _text(selector: Any, word: Callable[[str, str, list[str]], str]) -> str:
    if not selector:
        return ""
    if selector.get("rawSelector"):
        return str(selector["rawSelector"])
    words = (
        word(each.get("key") or "", each.get("operator") or "", each.get("values") or [])
        for each in selector.get("requirements") or ()
    )
    return ",".join(filter(None, words))


def _label(key: str, operator: str, values: list[str]) -> str:
    match operator:
        case "In" | "NotIn":
            return f"{key} {operator.lower()} ({','.join(values)})" if values else ""
        case "Exists":
            return key
        case "DoesNotExist":
            return f"!{key}"
    return ""


def _field(key: str, operator: str, values: list[str]) -> str:
    """Field selectors have a single value, and no words for presence."""
    signs = {"In": EQUALS, "NotIn": NOT_EQUALS}
    if operator not in signs or len(values) != 1:
        return ""
    return str(FieldRequirement(key, signs[operator], values[0]))
