"""The values of an object as a sentence has them: ``usage is 61.2 (Gt 50, clearAt 40)``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Final

from pilothouse.api.openstorage.v1alpha1 import Cause
from pilothouse.rules.object_records import RuleTerms

_MOST_VALUES: Final = 5
_LONGEST_EXPRESSION: Final = 200
_MOST_LABELS: Final = 8


def values_text(terms: RuleTerms, causes: Sequence[Cause]) -> str:
    """The first few values that were compared, with what they were compared to."""
    shown = list(_each_value(terms, causes[:_MOST_VALUES]))
    if left := len(causes) - len(shown):
        shown.append(f"and {left} more values")
    return ", ".join(shown)


def _each_value(terms: RuleTerms, causes: Sequence[Cause]) -> Iterator[str]:
    clear_at = {
        one.key_alias or one.key or one.expression: one.clear_at for one in terms.spec.conditions.expressions
    }
    for cause in causes:
        compared = " ".join(filter(None, (cause.operator, *cause.threshold)))
        if (clear := clear_at.get(cause.expression)) is not None:
            compared += f", clearAt {clear}"
        text = f"{cause.expression[:_LONGEST_EXPRESSION]} is {cause.value}"
        yield f"{text} ({compared})" if compared else text


def series_text(causes: Iterable[Cause]) -> str:
    """What the values that held are about: ``slot_name standby``; empty if it is their object."""
    found = (f"{name} {value}" for one in causes if one.held for name, value in one.series.items())
    return ", ".join(islice(dict.fromkeys(found), _MOST_LABELS))
