"""Prometheus' text format: values are kept as plain numbers and formatted when they are scraped.

    gauge("cache_revision", "The revision that the cache is at.", [("", 42)])
    counter("events_total", "Events sent.", [(labels(kind="Pod"), 7)])
    histogram("took_seconds", "How long it took.", [(labels(verb="GET"), took)])

Each returns one metric family, whose lines must stand together.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import accumulate

from pilothouse.base.histogram import Histogram

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
LONGEST = 256
"""The most characters of a label's value; longer ones are cut."""
_ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})

Samples = Iterable[tuple[str, float]]
"""Values by their labels, as ``labels`` writes them."""


def quoted(value: str) -> str:
    """A label's value."""
    return f'"{value[:LONGEST].translate(_ESCAPES)}"'


def labels(**values: str) -> str:
    """Names and values, without the braces."""
    return ",".join([f"{name}={quoted(value)}" for name, value in values.items()])


def gauge(name: str, help: str, samples: Samples) -> str:
    return _family(name, "gauge", help, samples)


def counter(name: str, help: str, samples: Samples) -> str:
    return _family(name, "counter", help, samples)


def histogram(name: str, help: str, series: Iterable[tuple[str, Histogram]]) -> str:
    lines = [header(name, "histogram", help)]
    for text, each in series:
        comma = "," if text else ""
        totals = list(accumulate(each.counts))
        for bound, total in zip((*each.bounds, "+Inf"), totals, strict=True):
            lines.append(f'{name}_bucket{{{text}{comma}le="{bound}"}} {total}\n')
        braces = f"{{{text}}}" if text else ""
        lines.append(f"{name}_sum{braces} {each.sum}\n{name}_count{braces} {totals[-1]}\n")
    return "".join(lines) if len(lines) > 1 else ""


def header(name: str, type: str, help: str) -> str:
    return f"# HELP {name} {help}\n# TYPE {name} {type}\n"


def _family(name: str, type: str, help: str, samples: Samples) -> str:
    lines = [f"{name}{{{text}}} {value}\n" if text else f"{name} {value}\n" for text, value in samples]
    return header(name, type, help) + "".join(lines) if lines else ""
