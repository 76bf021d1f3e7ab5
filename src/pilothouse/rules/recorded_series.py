"""Series of a file: OpenMetrics text with times, or answers of Prometheus' ``query_range`` as JSON.

series = recorded_series(content, wanted)
"""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import Final

import msgspec

from pilothouse.rules.metrics_pages import parse_series
from pilothouse.rules.promql.memory_series import MemorySeries
from pilothouse.rules.series_store import WantedSeries

MOST_SAMPLES: Final = 50_000_000
_MILLISECONDS_FROM: Final = 1e11
"""A time above it is in milliseconds: in seconds, it would be in the year 5138."""


class RecordingError(ValueError):
    """A file that holds no series; the message says why."""


class _Recorded(msgspec.Struct):
    metric: dict[str, str]
    values: list[tuple[float, str]]


class _RangeData(msgspec.Struct):
    result: list[_Recorded]


class _RangeAnswer(msgspec.Struct):
    data: _RangeData


_answers = msgspec.json.Decoder(list[_RangeAnswer])


def recorded_series(content: bytes, wanted: WantedSeries) -> MemorySeries:
    """The wanted series of a file. Raises ``RecordingError``."""
    begin = content.lstrip()[:1]
    if begin in (b"{", b"["):
        found = _from_json(content if begin == b"[" else b"[" + content + b"]", wanted)
    else:
        found = _from_text(content, wanted)
    if not len(found):
        raise RecordingError("none of its series is read by a rule")
    return found


def _from_json(content: bytes, wanted: WantedSeries) -> MemorySeries:
    try:
        answers = _answers.decode(content)
        found = MemorySeries()
        for answer in answers:
            for each in answer.data.result:
                if wanted.selects(each.metric):
                    times = [round(time * 1000) for time, _ in each.values]
                    found.add(each.metric, times, [float(value) for _, value in each.values])
    except (msgspec.DecodeError, ValueError, RecursionError) as problem:
        raise RecordingError(f"it is not an answer of query_range: {problem}") from None
    return found


def _from_text(content: bytes, wanted: WantedSeries) -> MemorySeries:
    samples: dict[bytes, tuple[list[int], list[float]] | None] = {}
    labels_of: dict[bytes, Mapping[str, str]] = {}
    count = 0
    for number, line in enumerate(io.BytesIO(content), 1):
        if line[:1] in (b"#", b"\n", b"\r"):
            continue
        end = line.rfind(b"}") + 1 or line.find(b" ")
        text = line[:end]
        if text not in samples:
            labels = parse_series(text)
            if labels is None:
                raise RecordingError(f"line {number} is not OpenMetrics")
            samples[text] = ([], []) if wanted.selects(labels) else None
            labels_of[text] = labels
        into = samples[text]
        if into is None:
            continue
        count += 1
        if count > MOST_SAMPLES:
            raise RecordingError(f"it has more than {MOST_SAMPLES} samples")
        try:
            value, time = map(float, line[end:].split())
        except ValueError:
            raise RecordingError(f"line {number} has no value with a time") from None
        into[0].append(round(time if time > _MILLISECONDS_FROM else time * 1000))
        into[1].append(value)
    found = MemorySeries()
    for text, into in samples.items():
        if into is not None:
            order = sorted(range(len(into[0])), key=into[0].__getitem__)
            found.add(labels_of[text], [into[0][at] for at in order], [into[1][at] for at in order])
    return found
