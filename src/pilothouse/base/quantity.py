"""Kubernetes quantities (``500m``, ``1.5Gi``, ``12e6``), exactly.

    parse_quantity("1.5Gi") + parse_quantity("512Mi") == parse_quantity("2Gi")
    str(parse_quantity("0.5"))        # "500m"
    parse_quantity("1Gi").to_int()    # 1073741824

A quantity is a whole number of nano-units plus the family of suffixes it was written in, which only decides
how it is printed. Nothing is rounded down: a fraction of a nano-unit becomes one, as in Kubernetes.
Comparison is by value: ``1000m`` equals ``1``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction
from functools import total_ordering
from typing import Final

NANO: Final = 10**9
DECIMAL: Final = "DecimalSI"
BINARY: Final = "BinarySI"
EXPONENT: Final = "DecimalExponent"

_LONGEST: Final = 64
_LARGEST_EXPONENT: Final = 48
_LARGEST_BINARY: Final = (2**63 - 1) * NANO

_DECIMAL_EXPONENTS: Final = dict(
    zip(("n", "u", "m", "", "k", "M", "G", "T", "P", "E"), range(-9, 19, 3), strict=True)
)
_DECIMAL_SUFFIXES: Final = {exponent: suffix for suffix, exponent in _DECIMAL_EXPONENTS.items()}
_BINARY_SUFFIXES: Final = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")

_GRAMMAR: Final = re.compile(
    r"(?P<sign>[+-]?)(?P<number>\d+(?:\.\d*)?|\.\d+)"
    r"(?:(?P<binary>[KMGTPE]i)|[eE](?P<exponent>[+-]?\d+)|(?P<decimal>[numkMGTPE]?))",
    re.ASCII,
)


class QuantityError(ValueError):
    """The text is not a quantity."""

    def __init__(self, text: object) -> None:
        super().__init__(
            f"{text!r} is not a quantity: expected a number with an optional suffix, such as 500m, 2, 1.5Gi "
            "or 12e6"
        )


@total_ordering
@dataclass(frozen=True, slots=True, eq=False)
class Quantity:
    """An exact amount. ``str()`` gives the canonical form."""

    nanos: int
    family: str = DECIMAL

    def __eq__(self, other: object) -> bool:
        return self.nanos == other.nanos if isinstance(other, Quantity) else NotImplemented

    def __lt__(self, other: Quantity) -> bool:
        return self.nanos < other.nanos

    def __hash__(self) -> int:
        return hash(self.nanos)

    def __bool__(self) -> bool:
        return self.nanos != 0

    def __add__(self, other: Quantity) -> Quantity:
        return Quantity(self.nanos + other.nanos, self.family if self.nanos else other.family)

    def __sub__(self, other: Quantity) -> Quantity:
        return Quantity(self.nanos - other.nanos, self.family if self.nanos else other.family)

    def __mul__(self, factor: int | float | Fraction) -> Quantity:
        return Quantity(_away_from_zero(self.nanos * Fraction(factor)), self.family)

    def __neg__(self) -> Quantity:
        return Quantity(-self.nanos, self.family)

    def to_int(self) -> int:
        """Whole units, rounded up."""
        return _away_from_zero(Fraction(self.nanos, NANO))

    def to_float(self) -> float:
        return self.nanos / NANO

    def __str__(self) -> str:
        if self.nanos == 0:
            return "0"
        if self.family == BINARY and abs(self.nanos) >= 1024 * NANO:
            return _binary_text(self.to_int())
        return _decimal_text(self.nanos, exponential=self.family == EXPONENT)


def parse_quantity(value: str | int | float) -> Quantity:
    """The quantity a manifest means; bare numbers count as decimal. Raises QuantityError, a ValueError."""
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        raise QuantityError(value)
    text = value if isinstance(value, str) else repr(value)
    match = _GRAMMAR.fullmatch(text) if len(text) <= _LONGEST else None
    if match is None:
        raise QuantityError(value)
    amount = Fraction(match["number"].rstrip(".")) * NANO
    family = DECIMAL
    if match["binary"]:
        family = BINARY
        amount *= 1024 ** _BINARY_SUFFIXES.index(match["binary"])
    elif match["exponent"]:
        family = EXPONENT
        exponent = int(match["exponent"])
        if exponent > _LARGEST_EXPONENT:
            raise QuantityError(value)
        amount *= Fraction(10) ** max(exponent, -2 * _LARGEST_EXPONENT)
    else:
        amount *= Fraction(10) ** _DECIMAL_EXPONENTS[match["decimal"] or ""]
    nanos = _away_from_zero(amount)
    if family == BINARY:
        nanos = min(nanos, _LARGEST_BINARY)
        if 0 < nanos < NANO:
            family = DECIMAL
    return Quantity(-nanos if match["sign"] == "-" else nanos, family)


def canonical_quantity(value: str | int | float) -> str:
    """The form in which Kubernetes stores a quantity: ``0.5`` is ``500m``, ``1024Mi`` is ``1Gi``."""
    return str(parse_quantity(value))


def _away_from_zero(amount: Fraction) -> int:
    whole, rest = divmod(abs(amount.numerator), amount.denominator)
    rounded = whole + (1 if rest else 0)
    return -rounded if amount < 0 else rounded


def _binary_text(units: int) -> str:
    power = 0
    while units % 1024 == 0 and power < len(_BINARY_SUFFIXES) - 1:
        units //= 1024
        power += 1
    return f"{units}{_BINARY_SUFFIXES[power]}"


def _decimal_text(nanos: int, *, exponential: bool) -> str:
    exponent = -9
    while nanos % 1000 == 0 and (exponential or exponent < 18):
        nanos //= 1000
        exponent += 3
    if exponential:
        return f"{nanos}e{exponent}" if exponent else str(nanos)
    return f"{nanos}{_DECIMAL_SUFFIXES[exponent]}"
