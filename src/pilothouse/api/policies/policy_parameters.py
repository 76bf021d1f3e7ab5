"""The parameters of policies: typed, bounded, and literals wherever they are used.

    latency = PolicyParameter("latency", "duration", "How slow is too slow.", default="25ms", least="1ms")
    value = latency.read("50ms")       # raises ParameterError
    f"rate(x[5m]) > {value}"           # rate(x[5m]) > 0.05
    value.text                         # 50ms, for parameters of actions

``str()`` of a value is a literal of PromQL: a number, or a quoted string with everything escaped that could
end it. What a user wrote never becomes a part of an expression as it stands.
"""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Final, Literal

import msgspec

from pilothouse.base.duration import parse_duration
from pilothouse.base.quantity import parse_quantity

ParameterType = Literal["number", "percentage", "duration", "quantity", "count", "choice", "text"]
_NUMBER: Final = re.compile(r"-?[0-9]{1,12}(\.[0-9]{1,9})?", re.ASCII)
_COUNT: Final = re.compile(r"[0-9]{1,12}", re.ASCII)
_TEXT: Final = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9_.,-]{0,251}[A-Za-z0-9_])?", re.ASCII)
_QUOTED: Final = 80
"""How much of a bad value a message quotes."""
_FORMS: Final = {
    "number": "a number such as 1.5",
    "percentage": "a percentage such as 70",
    "duration": "a duration such as 25ms, 30s or 12h",
    "quantity": "a quantity such as 400Gi",
    "count": "a whole number such as 3",
    "text": "letters, digits, and - _ . , between them",
}


class ParameterError(ValueError):
    """A value that a parameter can't have; the message says what it can have."""


class ParameterValue(msgspec.Struct, frozen=True):
    """A value that was read: ``number`` in seconds, bytes or units; 0 for words."""

    text: str
    """Its canonical form, for the parameters of actions."""
    number: Decimal = Decimal(0)
    is_word: bool = False

    def __str__(self) -> str:
        return quoted(self.text) if self.is_word else plain(self.number)

    def __bool__(self) -> bool:
        return bool(self.text)


class PolicyParameter(msgspec.Struct, frozen=True):
    """A threshold, a limit or a choice of a policy."""

    name: str
    type: ParameterType
    summary: str
    default: str = ""
    """Empty: it is not set unless a policy sets it."""
    least: str = ""
    most: str = ""
    choices: tuple[str, ...] = ()

    @property
    def bounds(self) -> str:
        """What it can be, for people."""
        if self.choices:
            return ", ".join(self.choices)
        if self.least and self.most:
            return f"{self.least} to {self.most}"
        return f"at least {self.least}" if self.least else f"at most {self.most}" if self.most else ""

    def read(self, text: str) -> ParameterValue:
        """Raises ``ParameterError``."""
        value = self._parse(text)
        if self.least and value.number < self._parse(self.least).number:
            raise ParameterError(f"{shown(text)} is less than {self.least}: must be {self.bounds}")
        if self.most and value.number > self._parse(self.most).number:
            raise ParameterError(f"{shown(text)} is more than {self.most}: must be {self.bounds}")
        return value

    @property
    def default_value(self) -> ParameterValue:
        return self.read(self.default) if self.default else ParameterValue("", is_word=self.is_word)

    @property
    def is_word(self) -> bool:
        return self.type in ("choice", "text")

    def _parse(self, text: str) -> ParameterValue:
        if self.choices and text not in self.choices:
            raise ParameterError(f"{shown(text)} must be one of {', '.join(self.choices)}")
        if self.type == "choice":
            return ParameterValue(text, is_word=True)
        try:
            return _READERS[self.type](text)
        except ValueError:
            raise ParameterError(f"{shown(text)} must be {_FORMS[self.type]}") from None


def plain(number: Decimal) -> str:
    """A number as PromQL and the values of a rule have it: without an exponent or needless zeros."""
    text = f"{number:f}"
    return (text.rstrip("0").rstrip(".") if "." in text else text) or "0"


def whole_seconds(duration: ParameterValue) -> str:
    """A duration as the range of a selector has it: ``300s``."""
    return f"{int(duration.number)}s"


def quoted(text: str) -> str:
    """A string of PromQL, in double quotes; everything but letters, digits and a few signs is escaped."""
    return '"' + "".join(one if one in _SAFE else f"\\U{ord(one):08x}" for one in text) + '"'


def shown(text: str) -> str:
    """A value as a message quotes it."""
    return repr(text if len(text) <= _QUOTED else f"{text[:_QUOTED]}…")


def _number(text: str) -> ParameterValue:
    return _of_number(_matched(_NUMBER, text))


def _percentage(text: str) -> ParameterValue:
    return _of_number(_matched(_NUMBER, text.removesuffix("%")))


def _count(text: str) -> ParameterValue:
    return _of_number(_matched(_COUNT, text))


def _duration(text: str) -> ParameterValue:
    return ParameterValue(text, Decimal(repr(parse_duration(text))))


def _quantity(text: str) -> ParameterValue:
    found = parse_quantity(text)
    return ParameterValue(str(found), Decimal(found.to_int()))


def _words(text: str) -> ParameterValue:
    return ParameterValue(_matched(_TEXT, text), is_word=True)


def _of_number(text: str) -> ParameterValue:
    number = Decimal(text)
    return ParameterValue(plain(number), number)


def _matched(pattern: re.Pattern[str], text: str) -> str:
    if pattern.fullmatch(text) is None:
        raise ValueError(text)
    return text


_SAFE: Final = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.,:/ ")
_READERS: Final = {
    "number": _number,
    "percentage": _percentage,
    "duration": _duration,
    "quantity": _quantity,
    "count": _count,
    "text": _words,
}
