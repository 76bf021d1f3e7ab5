"""Versions of APIs (``v1beta2``) and of software (``7.17.29``, ``3.9-alpha1``).

    sorted(["v1alpha1", "v10", "v2beta1", "v2"], key=api_version_rank)    # v10, v2, v2beta1, v1alpha1
    Version.parse("3.9") == Version.parse("3.9.0")                        # True, and str() is still "3.9"
    Version.parse("8.17.0") > Version.parse("7.17.29")                    # True

A ``Version`` keeps the text it was read from.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property, total_ordering
from typing import Any, Final

_API_VERSION: Final = re.compile(r"v([1-9][0-9]*)(?:(alpha|beta)([1-9][0-9]*))?", re.ASCII)
_STABILITY: Final = {"alpha": 2, "beta": 1, None: 0}

_IDENTIFIERS: Final = r"[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*"
_LENIENT: Final = re.compile(
    rf"v?(?P<numbers>\d+(?:\.\d+)*)(?:-(?P<pre>{_IDENTIFIERS}))?(?:\+(?P<build>{_IDENTIFIERS}))?", re.ASCII
)
_STRICT_NUMBERS: Final = re.compile(r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)", re.ASCII)
_LONGEST: Final = 256


def api_version_rank(version: str) -> tuple[Any, ...]:
    """A sort key that puts the preferred API version first; unknown forms come last, alphabetically."""
    match = _API_VERSION.fullmatch(version)
    if match is None:
        return (1, version)
    return (0, _STABILITY[match[2]], -int(match[1]), -int(match[3] or 0))


class VersionError(ValueError):
    """The text is not a version."""


@total_ordering
@dataclass(frozen=True, eq=False)
class Version:
    """A software version, in semantic-versioning order after padding to three numbers."""

    text: str
    numbers: tuple[int, ...] = (0, 0, 0)
    pre_release: tuple[str, ...] = ()
    build: str = ""

    @classmethod
    def parse(cls, text: str) -> Version:
        """Lenient: one or more numbers, optionally a leading ``v``, a pre-release, build metadata."""
        if not isinstance(text, str):
            raise VersionError(f"{text!r} is not a version: expected a string in quotes, such as '3.9.0'")
        match = _LENIENT.fullmatch(text) if len(text) <= _LONGEST else None
        if match is None:
            raise VersionError(
                f"{text!r} is not a version: expected numbers, such as 3.9, 7.17.29 or 4.1.0-beta1"
            )
        numbers = [int(number) for number in match["numbers"].split(".")]
        padded = tuple(numbers + [0] * (3 - len(numbers)))
        return cls(text, padded, tuple(match["pre"].split(".")) if match["pre"] else (), match["build"] or "")

    @classmethod
    def parse_strict(cls, text: str) -> Version:
        """Strict semantic versioning: exactly three numbers, no leading ``v`` or zeros."""
        version = cls.parse(text)
        core = re.split(r"[-+]", text, maxsplit=1)[0]
        if not _STRICT_NUMBERS.fullmatch(core):
            raise VersionError(f"{text!r} is not a semantic version: expected three numbers, such as 7.17.29")
        for identifier in version.pre_release:
            if identifier.isdigit() and len(identifier) > 1 and identifier.startswith("0"):
                raise VersionError(f"{text!r} is not a semantic version: {identifier!r} has a leading zero")
        return version

    @property
    def major(self) -> int:
        return self.numbers[0]

    @property
    def minor(self) -> int:
        return self.numbers[1]

    @property
    def patch(self) -> int:
        return self.numbers[2]

    @property
    def padded(self) -> str:
        """At least three numbers, without a leading ``v``: an image's tag."""
        core = ".".join(str(number) for number in self.numbers)
        pre_release = f"-{'.'.join(self.pre_release)}" if self.pre_release else ""
        return f"{core}{pre_release}{f'+{self.build}' if self.build else ''}"

    @cached_property
    def _order(self) -> tuple[Any, ...]:
        numbers = self.numbers
        while len(numbers) > 3 and numbers[-1] == 0:
            numbers = numbers[:-1]
        # A release comes after its pre-releases; numeric identifiers come before words.
        parts = tuple((0, int(part), "") if part.isdigit() else (1, 0, part) for part in self.pre_release)
        return (numbers, not self.pre_release, parts)

    def __eq__(self, other: object) -> bool:
        return self._order == other._order if isinstance(other, Version) else NotImplemented

    def __lt__(self, other: Version) -> bool:
        return bool(self._order < other._order)

    def __hash__(self) -> int:
        return hash(self._order)

    def __str__(self) -> str:
        return self.text
