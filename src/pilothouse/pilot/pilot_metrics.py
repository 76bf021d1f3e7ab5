"""The metrics of a pilot and its database, in Prometheus' text format."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterable, Iterator
from pathlib import Path

from pilothouse.base.prometheus_text import counter, gauge, header, labels
from pilothouse.pilot.driver import MetricValue
from pilothouse.pilot.pilot_status import InstanceFacts


def render_metrics(
    name: str, known: InstanceFacts | None, *, leads: bool, beats: int, now: float, start_took: float | None
) -> str:
    return "".join(
        (*_pilot(name, known, leads=leads, beats=beats, now=now), *_start(name, start_took), *_process())
    )


def _pilot(name: str, known: InstanceFacts | None, *, leads: bool, beats: int, now: float) -> Iterator[str]:
    who = labels(pilot=name)
    yield gauge(
        "pilothouse_pilot_leads", "Whether this pilot leads those of its cluster.", [(who, int(leads))]
    )
    yield counter("pilothouse_pilot_heartbeats_total", "Heartbeats that were written.", [(who, beats)])
    if known is None:
        return
    seen = known.observation
    up = int(known.life.is_running)
    yield gauge("pilothouse_pilot_database_up", "Whether the database's process runs.", [(who, up)])
    ready = int(bool(up and seen is not None and seen.ready))
    yield gauge("pilothouse_pilot_database_ready", "Whether the database serves.", [(who, ready)])
    yield counter("pilothouse_pilot_restarts_total", "Starts after the first.", [(who, known.restarts)])
    if known.started is not None and up:
        age = max(0.0, now - known.started)
        yield gauge("pilothouse_pilot_database_age_seconds", "Since the database's start.", [(who, age)])
    if known.volume is not None:
        used, capacity = known.volume.used, known.volume.capacity
        yield gauge("pilothouse_pilot_volume_used_bytes", "Used of the data's volume.", [(who, used)])
        yield gauge("pilothouse_pilot_volume_capacity_bytes", "Its size: used or free.", [(who, capacity)])
    if seen is not None:
        yield from _of_application(seen.metrics)


def _start(name: str, took: float | None) -> Iterator[str]:
    if took is not None:
        help = "From the Pilot found to the database's first start, hooks included."
        yield gauge("pilothouse_pilot_start_seconds", help, [(labels(pilot=name), took)])


def _of_application(found: Iterable[MetricValue]) -> Iterator[str]:
    names = ""
    for figure in sorted(found, key=lambda each: each.name):
        if figure.name != names:
            names = figure.name
            yield header(figure.name, figure.kind, figure.help)
        text = labels(**figure.labels)
        yield f"{figure.name}{{{text}}} {figure.value}\n" if text else f"{figure.name} {figure.value}\n"


def _process() -> Iterator[str]:
    used = resource.getrusage(resource.RUSAGE_SELF)
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    size = pages * os.sysconf("SC_PAGE_SIZE")
    seconds = used.ru_utime + used.ru_stime
    yield counter("process_cpu_seconds_total", "User and system time used.", [("", seconds)])
    yield gauge("process_resident_memory_bytes", "Resident memory.", [("", size)])
