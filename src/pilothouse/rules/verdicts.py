"""Verdicts: whether a rule's conditions hold, for all objects at once.

    series = Series(object_of, values)          # the samples of one expression; several may be one object's
    usage = ThresholdComparison("Gt", (50.0,), clear_at=40.0)
    verdicts = compared(usage, series, held)    # int8, one per object: MET, NOT_MET or UNKNOWN
    combined([verdicts, others], required=0)    # the rule's: 0 requires all of them

A verdict has three values. An object without a sample, or with a sample that is not a finite number, is
UNKNOWN: it is never met, and it is not taken for "not met" either. Of several series of one object, one that
meets the comparison is enough.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from pilothouse.api.openstorage.v1alpha1 import Expression
from pilothouse.rules.verdict import Verdict

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Verdicts = NDArray[np.int8]

UNKNOWN: Final = int(Verdict.UNKNOWN)
NOT_MET: Final = int(Verdict.NOT_MET)
MET: Final = int(Verdict.MET)

_CLEARED: Final = frozenset({"Gt", "GtEq", "Lt", "LtEq"})
"""The operators that ``clearAt`` applies to."""

_OPERATORS: Final[Mapping[str, Callable[[Floats, tuple[float, ...]], Bools]]] = {
    "Gt": lambda values, than: values > than[0],
    "GtEq": lambda values, than: values >= than[0],
    "Lt": lambda values, than: values < than[0],
    "LtEq": lambda values, than: values <= than[0],
    "InRange": lambda values, of: (values >= of[0]) & (values <= of[1]),
    "NotInRange": lambda values, of: (values < of[0]) | (values > of[1]),
    "In": lambda values, of: np.isin(values, of),
    "NotIn": lambda values, of: ~np.isin(values, of),
    "Exists": lambda values, _: np.ones(values.shape, dtype=np.bool_),
    "DoesNotExist": lambda values, _: np.zeros(values.shape, dtype=np.bool_),
}
_NEAR: Final = 0.9
"""The part of a threshold from which on a value is near it."""
_FAR: Final = 0.8
"""The part of a threshold below which a value that was near it is so no more."""
_WITHOUT_SAMPLE: Final[Mapping[str, int]] = {"Exists": NOT_MET, "DoesNotExist": MET}
"""What no sample means to operators that ask for nothing else."""


class Series(msgspec.Struct, frozen=True):
    """The samples that answer one expression: sample ``i`` belongs to object ``object_of[i]``."""

    object_of: NDArray[np.int32]
    values: Floats


class ThresholdComparison(msgspec.Struct, frozen=True):
    """An operator and the numbers to compare with."""

    operator: str
    values: tuple[float, ...] = ()
    clear_at: float | None = None
    """Once met, it stays met while it holds for this number in place of the threshold."""

    @classmethod
    def of(cls, expression: Expression) -> ThresholdComparison:
        """Raises ``ValueError`` for values that are no numbers."""
        if expression.expression:
            # A comparison in the provider's language: 1 where it holds, 0 where it does not.
            return cls("Gt", (0.0,))
        clear_at = float(expression.clear_at) if expression.clear_at is not None else None
        return cls(expression.operator or "Gt", tuple(map(float, expression.values)), clear_at)


def compared(comparison: ThresholdComparison, series: Series, held: Bools) -> Verdicts:
    """The verdict on each object; ``held`` says for which it was met at the last look."""
    operator = comparison.operator
    known = np.isfinite(series.values)
    meets = _OPERATORS[operator](series.values, comparison.values) & known
    if comparison.clear_at is not None and operator in _CLEARED:
        stays = _OPERATORS[operator](series.values, (comparison.clear_at,)) & known
        meets |= stays & held[series.object_of]
    verdicts = np.full(held.shape, UNKNOWN, dtype=np.int8)
    if (without := _WITHOUT_SAMPLE.get(operator)) is not None:
        verdicts[:] = without
        verdicts[series.object_of] = UNKNOWN
    verdicts[series.object_of[known]] = NOT_MET
    verdicts[series.object_of[meets]] = MET
    return verdicts


def approaching(comparison: ThresholdComparison) -> ThresholdComparison | None:
    """The comparison that is met from 90 % of the threshold on, and then stays met down to 80 % of it.

    None if there is no such thing: for other operators, and for a threshold that is not above zero."""
    operator, threshold = comparison.operator, next(iter(comparison.values), 0.0)
    if threshold <= 0:
        return None
    if operator in ("Gt", "GtEq"):
        return ThresholdComparison("GtEq", (_NEAR * threshold,), clear_at=_FAR * threshold)
    if operator in ("Lt", "LtEq"):
        return ThresholdComparison("LtEq", (threshold / _NEAR,), clear_at=threshold / _FAR)
    return None


def is_near_any(nearer: ThresholdComparison, series: Series) -> bool:
    """Whether any sample is so near that ``compared`` to it can differ from the threshold's own verdict."""
    least = nearer.values if nearer.clear_at is None else (nearer.clear_at,)
    return bool(_OPERATORS[nearer.operator](series.values, least).any())


def combined(verdicts: Sequence[Verdicts], required: int) -> Verdicts:
    """The verdict on each object, of which at least so many comparisons must be met; 0 means all of them.

    It is known as soon as the unknown ones can't change it.
    """
    needed = required or len(verdicts)
    if len(verdicts) == needed == 1:
        return verdicts[0].copy()
    stacked = np.stack(verdicts)
    met = (stacked == MET).sum(axis=0)
    possible = (stacked != NOT_MET).sum(axis=0)
    outcome = np.full(stacked.shape[1], UNKNOWN, dtype=np.int8)
    outcome[possible < needed] = NOT_MET
    outcome[met >= needed] = MET
    return outcome
