"""The table that a run prints: our figure, the other's, the ratio, the aim. Markdown, so that it can be kept."""

from __future__ import annotations

from collections.abc import Iterable

from bench.api.rounds import Row

HEADER = ("measure", "ours", "figure", "±", "beside", "figure", "ratio", "aim", "")


def lines(rows: Iterable[Row]) -> list[str]:
    cells = [HEADER, *(_cells(row) for row in rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(HEADER))]
    drawn = [_line(row, widths) for row in cells]
    rule = "|" + "|".join("-" * (width + 2) for width in widths) + "|"
    return [drawn[0], rule, *drawn[1:]]


def _cells(row: Row) -> tuple[str, ...]:
    return (
        row.title,
        row.ours,
        _number(row.figure, row.unit),
        f"{row.spread:.0%}",
        row.other or "",
        _number(row.theirs, row.unit) if row.theirs is not None else "",
        f"{row.ratio:.2f}" if row.ratio is not None else "",
        row.aim,
        {True: "met", False: "short", None: ""}[row.met],
    )


def _number(value: float, unit: str) -> str:
    return f"{value:,.0f} {unit}" if value >= 100 else f"{value:.3g} {unit}"


def _line(cells: tuple[str, ...], widths: list[int]) -> str:
    return "| " + " | ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)) + " |"
