"""Types of flags that click does not have."""

from __future__ import annotations

import os
from ipaddress import IPv4Network
from pathlib import Path
from typing import Any, Final, NamedTuple

import click

from pilothouse.base.duration import DurationError, parse_duration

FILE: Final = click.Path(exists=True, dir_okay=False, path_type=Path)


class DataPath(click.Path):
    """The path of a data folder, which need not exist."""

    def __init__(self) -> None:
        super().__init__(path_type=Path)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        from pilothouse.app.options import data_path_problem

        path = Path(os.fsdecode(super().convert(value, param, ctx)))
        if problem := data_path_problem(path):
            raise click.ClickException(problem)
        return path


class Duration(click.ParamType[float]):
    """``90s``, ``5m``, ``1h30m``; in the program, seconds."""

    name = "duration"

    def __init__(self, *, minimum: float = 0.0) -> None:
        self._minimum = minimum

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        if isinstance(value, int | float):
            return float(value)
        try:
            seconds = parse_duration(value)
        except DurationError:
            self.fail(f"{value!r} is not a duration such as 90s, 5m or 1h30m", param, ctx)
        if seconds < 0:
            self.fail(f"{value!r} is negative", param, ctx)
        if seconds < self._minimum:
            self.fail(f"{value!r} is too short: it must be at least {self._minimum:g}s", param, ctx)
        return seconds


class DurationRange(click.ParamType[tuple[float, float]]):
    """``10s-1m``, or ``30s`` for exactly that; in the program, the least and the most, in seconds."""

    name = "duration-duration"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[float, float]:
        if isinstance(value, tuple):
            return value
        first, _, last = value.partition("-")
        try:
            low, high = parse_duration(first), parse_duration(last or first)
        except DurationError:
            self.fail(f"{value!r} is not a range of durations such as 10s-1m, or one such as 30s", param, ctx)
        if low > high:
            self.fail(f"{value!r} ends before it begins", param, ctx)
        return low, high


class Choices(click.ParamType[frozenset[str]]):
    """Some of several words, separated by commas; in the program, a set."""

    name = "list"

    def __init__(self, *words: str) -> None:
        self._words = words

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> frozenset[str]:
        if isinstance(value, frozenset):
            return value
        found = [word.strip() for word in value.split(",") if word.strip()]
        for word in found:
            if word not in self._words:
                self.fail(f"{word!r} is none of {', '.join(self._words)}", param, ctx)
        return frozenset(found)


class TierFlag(NamedTuple):
    """A tier as its flag says."""

    name: str
    folder: Path
    size: int = 0
    """In bytes; 0 if it is as large as its disk."""

    def __str__(self) -> str:
        """The value of the flag."""
        return f"{self.name}={self.folder}{f',size={self.size}' if self.size else ''}"


class Tier(click.ParamType[TierFlag]):
    """``NAME=FOLDER`` or ``NAME=FOLDER,size=2Gi``."""

    name = "name=folder"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> TierFlag:
        if isinstance(value, TierFlag):
            return value
        name, equals, rest = value.partition("=")
        folder, sized, size = rest.partition(",size=")
        if not equals or not name or not folder.startswith("/"):
            self.fail(f"{value!r} is not a tier: write NAME=FOLDER, with an absolute path", param, ctx)
        if name == "default":
            self.fail("the tier default is in the data folder: choose another name", param, ctx)
        return TierFlag(name, Path(folder), self._size(size, param, ctx) if sized else 0)

    def _size(self, text: str, param: click.Parameter | None, ctx: click.Context | None) -> int:
        from pilothouse.base.quantity import QuantityError, parse_quantity

        try:
            size = parse_quantity(text).to_int()
        except QuantityError as problem:
            self.fail(f"the size of a tier: {problem}", param, ctx)
        if size <= 0:
            self.fail(f"the size of a tier: {text} is not greater than zero", param, ctx)
        return size


class IdCount(click.ParamType[tuple[int, int]]):
    """``FIRST:COUNT``; in the program, the two."""

    name = "first:count"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[int, int]:
        if isinstance(value, tuple):
            return value
        first, _, count = value.partition(":")
        if not (first.isdecimal() and count.isdecimal()):
            self.fail(
                f"{value!r} is not a range of ids: write FIRST:COUNT, as in 1879048192:268435456", param, ctx
            )
        low, size = int(first), int(count)
        if low < 65536 or size < 65536 or low + size > 2**32 - 1:
            self.fail(
                f"{value!r}: ids of pods are from 65536 to 4294967294, and each pod has 65536 of them",
                param,
                ctx,
            )
        return low, size


class Listen(click.ParamType[tuple[str, int]]):
    """``HOST:PORT``; in the program, the two."""

    name = "host:port"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, int]:
        from pilothouse.app.addresses import split_listen

        try:
            return split_listen(value)
        except ValueError as problem:
            self.fail(str(problem), param, ctx)


class Network(click.ParamType[IPv4Network]):
    """``127.96.0.0/16``."""

    name = "cidr"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> IPv4Network:
        try:
            return IPv4Network(value)
        except ValueError as problem:
            self.fail(f"{problem}; write a range such as 127.96.0.0/16", param, ctx)


class Urls(click.ParamType[tuple[str, ...]]):
    """``URL,URL``; in the program, a tuple of them."""

    name = "url,…"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, ...]:
        if isinstance(value, tuple):
            return value
        urls = tuple(part.strip() for part in value.split(",") if part.strip())
        for url in urls:
            if not url.startswith(("http://", "https://")):
                self.fail(f"{url!r} is not a URL such as https://127.0.0.1:2379", param, ctx)
        return urls
