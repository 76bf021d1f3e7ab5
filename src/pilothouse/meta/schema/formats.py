"""The text formats and patterns of schemas.

``FORMATS`` are those that Kubernetes checks in custom resources; other formats check nothing. ``Pattern`` is
an RE2 expression: linear time, no look-around or back-references.
"""

from __future__ import annotations

import base64
import ipaddress
import re
from collections.abc import Callable, Mapping
from datetime import date, datetime
from functools import lru_cache, partial
from typing import Final
from urllib.parse import urlsplit

import jsonschema_rs

_CLOCK = re.compile(r"(\d{4}-\d\d-\d\d)[Tt ](\d\d:\d\d:\d\d)(?:\.\d+)?([Zz]|[+-]\d\d:\d\d)")
_DATE = re.compile(r"\d{4}-\d\d-\d\d")
_GO_DURATION = re.compile(r"[+-]?(?:0|(?:(?:\d+(?:\.\d*)?|\.\d+)(?:ns|us|µs|μs|ms|s|m|h))+)")
_WORD_DURATION = re.compile(
    r"\d+\s*(?:ns|nanos?|nanoseconds?|us|µs|micros?|microseconds?|ms|millis?|milliseconds?"
    r"|s|secs?|seconds?|m|mins?|minutes?|h|hrs?|hours?|d|days?|w|wks?|weeks?)"
)
_LONGEST_DURATION = 1000
"""Characters; the matcher takes a few hundred bytes for each part of a duration."""
_LABEL = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?")
_MAC = re.compile(
    r"[0-9a-fA-F]{2}(?::[0-9a-fA-F]{2}){5,19}|[0-9a-fA-F]{2}(?:-[0-9a-fA-F]{2}){5,19}"
    r"|[0-9a-fA-F]{4}(?:\.[0-9a-fA-F]{4}){2,9}"
)
_NAMED_ADDRESS = re.compile(r"[^<>]*<([^<>]*)>")
_ADDRESS = re.compile(r"(?:[^\s@<>()\[\],;:\\\"]+|\"[^\"]+\")@[^\s@<>,;]+")
_RGB = re.compile(r"rgb\(\s*(\d{1,3})\s*,\s*(\d{1,3})\s*,\s*(\d{1,3})\s*\)")


def is_date_time(text: str) -> bool:
    """RFC 3339, as ``2014-12-15T19:30:20.000Z``."""
    parts = _CLOCK.fullmatch(text)
    if parts is None:
        return False
    day, clock, zone = parts.groups()
    try:
        datetime.fromisoformat(f"{day}T{clock}")
    except ValueError:
        return False
    return zone in "Zz" or (int(zone[1:3]) < 24 and int(zone[4:]) < 60)


def is_date(text: str) -> bool:
    return _DATE.fullmatch(text) is not None and _parses(date.fromisoformat, text)


def is_duration(text: str) -> bool:
    """``1h30m`` as Go writes it, or ``22 seconds`` in words."""
    if len(text) > _LONGEST_DURATION:
        return False
    return _GO_DURATION.fullmatch(text) is not None or _WORD_DURATION.fullmatch(text) is not None


def is_byte(text: str) -> bool:
    return _parses(partial(base64.b64decode, validate=True), text)


def is_uri(text: str) -> bool:
    """An absolute URI or an absolute path."""
    if not text or any(ord(char) <= 0x20 or ord(char) == 0x7F for char in text):
        return False
    try:
        parts = urlsplit(text)
        _ = parts.port
    except ValueError:
        return False
    return bool(parts.scheme) or text.startswith("/")


def is_email(text: str) -> bool:
    """``a@example.io``, or with a name: ``Ann <a@example.io>``."""
    named = _NAMED_ADDRESS.fullmatch(text)
    return _ADDRESS.fullmatch(named.group(1) if named else text) is not None


def is_hostname(text: str) -> bool:
    labels = text.removesuffix(".").split(".")
    return len(text) <= 255 and all(_LABEL.fullmatch(label) for label in labels)


def is_ipv4(text: str) -> bool:
    return _parses(ipaddress.IPv4Address, text)


def is_ipv6(text: str) -> bool:
    return "%" not in text and _parses(ipaddress.IPv6Address, text)


def is_cidr(text: str) -> bool:
    address, slash, length = text.partition("/")
    return (
        bool(slash)
        and length.isascii()
        and length.isdigit()
        and "%" not in address
        and _parses(ipaddress.ip_interface, text)
    )


def _parses(parse: Callable[[str], object], text: str) -> bool:
    try:
        parse(text)
    except ValueError:
        return False
    return True


def is_isbn10(text: str) -> bool:
    digits = text.replace("-", "").replace(" ", "")
    if re.fullmatch(r"[0-9]{9}[0-9Xx]", digits) is None:
        return False
    values = [10 if char in "Xx" else int(char) for char in digits]
    return sum((10 - index) * value for index, value in enumerate(values)) % 11 == 0


def is_isbn13(text: str) -> bool:
    digits = text.replace("-", "").replace(" ", "")
    if re.fullmatch(r"[0-9]{13}", digits) is None:
        return False
    return sum((3 if index % 2 else 1) * int(char) for index, char in enumerate(digits)) % 10 == 0


def is_credit_card(text: str) -> bool:
    digits = re.sub(r"[^0-9]", "", text)
    if not 12 <= len(digits) <= 19:
        return False
    total = 0
    for index, char in enumerate(reversed(digits)):
        value = int(char) * (2 if index % 2 else 1)
        total += value - 9 if value > 9 else value
    return total % 10 == 0


def is_rgb_color(text: str) -> bool:
    parts = _RGB.fullmatch(text)
    return parts is not None and all(int(part) <= 255 for part in parts.groups())


def _matches(expression: str) -> Callable[[str], bool]:
    compiled = re.compile(expression)
    return lambda text: compiled.fullmatch(text) is not None


def _uuid(third: str, fourth: str) -> Callable[[str], bool]:
    return _matches(rf"(?i:[0-9a-f]{{8}}-?[0-9a-f]{{4}}-?{third}-?{fourth}-?[0-9a-f]{{12}})")


_ANY_GROUP = "[0-9a-f]{4}"
_VARIANT_GROUP = "[89ab][0-9a-f]{3}"

FORMATS: Final[Mapping[str, Callable[[str], bool]]] = {
    "date-time": is_date_time,
    "datetime": is_date_time,
    "date": is_date,
    "duration": is_duration,
    "byte": is_byte,
    "uri": is_uri,
    "email": is_email,
    "hostname": is_hostname,
    "ipv4": is_ipv4,
    "ipv6": is_ipv6,
    "cidr": is_cidr,
    "mac": lambda text: _MAC.fullmatch(text) is not None,
    "uuid": _uuid(_ANY_GROUP, _ANY_GROUP),
    "uuid3": _uuid("3[0-9a-f]{3}", _ANY_GROUP),
    "uuid4": _uuid("4[0-9a-f]{3}", _VARIANT_GROUP),
    "uuid5": _uuid("5[0-9a-f]{3}", _VARIANT_GROUP),
    "bsonobjectid": _matches("[0-9a-fA-F]{24}"),
    "isbn": lambda text: is_isbn10(text) or is_isbn13(text),
    "isbn10": is_isbn10,
    "isbn13": is_isbn13,
    "creditcard": is_credit_card,
    "ssn": _matches(r"[0-9]{3}[- ]?[0-9]{2}[- ]?[0-9]{4}"),
    "hexcolor": _matches(r"#?(?:[0-9a-fA-F]{3}|[0-9a-fA-F]{6})"),
    "rgbcolor": is_rgb_color,
}

INTEGER_RANGES: Final = {"int32": (-(2**31), 2**31 - 1), "int64": (-(2**63), 2**63 - 1)}

# RE2 names these classes inside brackets; the matcher needs them spelt out.
_POSIX_CLASSES: Final = {
    "[:alnum:]": "0-9A-Za-z",
    "[:alpha:]": "A-Za-z",
    "[:ascii:]": r"\x00-\x7F",
    "[:blank:]": r"\t ",
    "[:cntrl:]": r"\x00-\x1F\x7F",
    "[:digit:]": "0-9",
    "[:graph:]": "!-~",
    "[:lower:]": "a-z",
    "[:print:]": " -~",
    "[:space:]": r"\t\n\v\f\r ",
    "[:upper:]": "A-Z",
    "[:word:]": "0-9A-Za-z_",
    "[:xdigit:]": "0-9A-Fa-f",
}


def portable_pattern(pattern: str) -> str:
    """The pattern without RE2's named classes."""
    if "[:" in pattern:
        for name, spelt in _POSIX_CLASSES.items():
            pattern = pattern.replace(name, spelt)
    return pattern


class Pattern:
    """A compiled pattern; raises ``ValueError`` for an invalid one."""

    def __init__(self, pattern: str) -> None:
        try:
            self._validator = jsonschema_rs.Draft202012Validator(
                {"pattern": portable_pattern(pattern)}, pattern_options=jsonschema_rs.RegexOptions()
            )
        except jsonschema_rs.ValidationError:
            raise ValueError(
                f"{pattern!r} is not a regular expression of the RE2 kind (look-around and back-references "
                "are not)"
            ) from None

    def matches(self, text: str) -> bool:
        """True if the pattern is found anywhere in the text."""
        return self._validator.is_valid(text)


@lru_cache(maxsize=1024)
def compile_pattern(pattern: str) -> Pattern:
    return Pattern(pattern)
