"""The query of ``pods/log``, and of a node's ``/containerLogs``.

    LogOptions.parse({"tailLines": "20", "follow": "true"}, now=clock.now())
    # LogOptions(follow=True, tail=20); raises a 422 that names each invalid parameter

API server and node apply the same rules, since a real kube-apiserver passes any query to the node.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from pilothouse.base.rfc3339 import TimeError, parse_time
from pilothouse.meta.errors import bad_request, invalid
from pilothouse.meta.fields import FieldError

STREAMS: Final = ("All", "Stdout", "Stderr")
_TRUE: Final = frozenset({"true", "1", "t"})
_FALSE: Final = frozenset({"false", "0", "f", ""})
NAMES: Final = (
    "follow", "previous", "timestamps", "tailLines", "limitBytes", "sinceSeconds", "sinceTime", "stream",
)  # fmt: skip
"""The parameters that select a part of the log; others select the container."""


class LogOptions(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Which lines of a log, and in which form."""

    follow: bool = False
    previous: bool = False
    timestamps: bool = False
    tail: int | None = None
    """Lines from the end; None for all."""
    limit: int | None = None
    """The maximum number of bytes."""
    since: float | None = None
    """Only lines from this time on."""
    stream: str = "All"

    @classmethod
    def parse(cls, params: Mapping[str, str], now: float) -> LogOptions:
        """Raises StatusError: 400 for what is no number, 422 for an invalid one."""
        problems: list[FieldError] = []
        tail = _count(params, "tailLines", 0, problems)
        limit = _count(params, "limitBytes", 1, problems)
        seconds = _count(params, "sinceSeconds", 1, problems)
        moment = _moment(params)
        if seconds is not None and moment is not None:
            problems.append(
                FieldError.forbidden(
                    "sinceSeconds", "at most one of `sinceTime` or `sinceSeconds` may be specified"
                )
            )
        stream = params.get("stream") or "All"
        if stream not in STREAMS:
            problems.append(FieldError.not_supported("stream", stream, list(STREAMS)))
        elif stream != "All" and tail is not None:
            problems.append(
                FieldError.forbidden("tailLines", "`tailLines` and specific `stream` are mutually exclusive")
            )
        if problems:
            raise invalid("PodLogOptions", "", "", problems)
        return cls(
            follow=_flag(params, "follow"),
            previous=_flag(params, "previous"),
            timestamps=_flag(params, "timestamps"),
            tail=tail,
            limit=limit,
            since=max(0.0, now - seconds) if seconds is not None else moment,
            stream=stream,
        )


def _flag(params: Mapping[str, str], name: str) -> bool:
    text = params.get(name, "").lower()
    if text not in _TRUE and text not in _FALSE:
        raise bad_request(f"{name} must be true or false, not {params[name]!r}")
    return text in _TRUE


def _count(params: Mapping[str, str], name: str, least: int, problems: list[FieldError]) -> int | None:
    text = params.get(name, "")
    if not text:
        return None
    if not (text.removeprefix("-").isdecimal() and text.isascii() and len(text) < 20):
        raise bad_request(f"{name} must be a whole number, not {text!r}")
    number = int(text)
    if number < least:
        wanted = "must be greater than or equal to 0" if least == 0 else "must be greater than 0"
        problems.append(FieldError.invalid(name, number, wanted))
    return number


def _moment(params: Mapping[str, str]) -> float | None:
    text = params.get("sinceTime", "")
    if not text:
        return None
    try:
        return parse_time(text)
    except TimeError as problem:
        raise bad_request(f"sinceTime: {problem}") from None
