"""A backtest as one HTML page: a chart of each volume, without any script or library."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from html import escape
from typing import Final

from pilothouse.rules.backtest import BacktestResult, VolumeCourse

_WIDTH: Final = 640
_HEIGHT: Final = 120
_MOST_CHARTS: Final = 200
_STYLE: Final = (
    "body{font:14px sans-serif;margin:2em;max-width:60em}table{border-collapse:collapse}"
    "td,th{padding:.2em 1em .2em 0;text-align:left}svg{background:#f6f6f6;display:block;margin:.3em 0 1.5em}"
    ".used{fill:none;stroke:#1f6feb}.capacity{fill:none;stroke:#888}.action{stroke:#d1242f}"
)


def backtest_page(results: Sequence[BacktestResult]) -> str:
    parts = [
        "<!doctype html><meta charset=utf-8><title>Backtest of rules</title>",
        f"<style>{_STYLE}</style><h1>Backtest of rules</h1>",
    ]
    for result in results:
        parts += _section(result)
    return "\n".join(parts) + "\n"


def _section(result: BacktestResult) -> list[str]:
    rules = escape(", ".join(result.rules))
    parts = [
        f"<h2>{rules}</h2>",
        f"<p>{_time(result.start)} to {_time(result.end)}: {len(result.actions)} actions "
        f"({result.actions_a_day:.2f} a day), {result.flaps} flaps, "
        f"{result.minutes_above:g} minutes above 95 %.</p>",
        "<table><tr><th>volume<th>from<th>to<th>actions<th>minutes above 95 %</tr>",
    ]
    parts += [
        f"<tr><td>{escape(each.name)}<td>{each.first_size}<td>{each.last_size}<td>{each.actions}"
        f"<td>{each.minutes_above:g}</tr>"
        for each in result.volumes
    ]
    parts.append("</table>")
    charted = sorted(result.volumes, key=lambda each: -each.actions)[:_MOST_CHARTS]
    for each in charted:
        parts += [f"<h3>{escape(each.name)}</h3>", _chart(result, each)]
    return parts


def _chart(result: BacktestResult, volume: VolumeCourse) -> str:
    top = max((value for _, value in (*volume.used, *volume.capacity)), default=0.0) or 1.0
    span = (result.end - result.start) or 1.0

    def x(time: float) -> float:
        return round((time - result.start) / span * _WIDTH, 1)

    def line(points: Sequence[tuple[float, float]], kind: str) -> str:
        text = " ".join(f"{x(time)},{_HEIGHT - round(value / top * _HEIGHT, 1)}" for time, value in points)
        return f'<polyline class="{kind}" points="{text}"/>'

    marks = [
        f'<line class="action" x1="{x(each.time)}" x2="{x(each.time)}" y1="0" y2="{_HEIGHT}">'
        f"<title>{escape(each.rule)}: {escape(' '.join(each.target.values()))}</title></line>"
        for each in result.actions
        if each.object.removeprefix("/") == volume.name
    ]
    body = "".join([line(volume.capacity, "capacity"), line(volume.used, "used"), *marks])
    return f'<svg width="{_WIDTH}" height="{_HEIGHT}" viewBox="0 0 {_WIDTH} {_HEIGHT}">{body}</svg>'


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M")
