"""``pilothouse rule explain``: what a rule sees, and what it waits for."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from pilothouse.base.terminal_text import escape_control_characters
from pilothouse.cli.error_output import errors_in_one_line
from pilothouse.cli.server_access import access, server_flags
from pilothouse.cli.waiting import waiting_for

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pilothouse.api.pilothouse.v1alpha1 import MeasuredValue, RuleReading
    from pilothouse.app.rule_explain import ExplainedNamespace

_CONDITIONS: Final = {"Met": "met", "NotMet": "not met", "Unknown": "unknown"}
_LONGEST: Final = 60


@click.command("explain")
@click.argument("rule")
@click.argument("claim", metavar="[OBJECT]", default="")
@click.option(
    "-n",
    "--namespace",
    default="",
    help="Namespace of the objects. Default: all in which the rule has objects; for one OBJECT, the "
    "kubeconfig's, or default.",
)
@click.option(
    "-o",
    "--output",
    type=click.Choice(["table", "json"]),
    default="table",
    show_default=True,
    help="Output format.",
)
@click.option(
    "--timeout",
    type=click.FloatRange(min=0, min_open=True),
    default=10.0,
    show_default=True,
    help="Seconds to wait for an answer.",
)
@server_flags
def explain(
    rule: str,
    claim: str,
    namespace: str,
    output: str,
    timeout: float,
    kubeconfig: Path | None,
    data: Path | None,
) -> None:
    """Explain what RULE knows of its objects: values and their age, the state, and what it waits for.

    RULE is an AutopilotRule, or an ApplicationPolicy: all of its rules. OBJECT is the name of a
    PersistentVolumeClaim, or of what the rule is about; without it, all objects of the rule are listed. The
    controller-manager is asked for the last values by a Question, which is deleted afterwards. The exit code
    is 1 if it does not answer, or there is nothing to explain.
    """
    import asyncio

    import msgspec

    from pilothouse.app.rule_explain import ExplainError, explain_rule

    reached = access(kubeconfig, data)
    try:
        with waiting_for(reached.url), errors_in_one_line(reached.url):
            found = asyncio.run(explain_rule(reached, rule, claim, namespace, timeout))
    except ExplainError as problem:
        raise click.ClickException(escape_control_characters(str(problem))) from None
    if output == "json":
        _print(msgspec.json.format(msgspec.json.encode(found)).decode())
    elif claim:
        for each in found:
            for reading in each.objects:
                _show_object(each, reading)
    else:
        _show_all(found)
    for each in found:
        if each.message:
            _print(each.message, err=True)
    if not any(each.objects for each in found):
        raise SystemExit(1)


def _show_object(found: ExplainedNamespace, reading: RuleReading) -> None:
    volume = f", volume {reading.volume}" if reading.volume else ""
    _print(f"rule {reading.rule}: {found.namespace}/{reading.object}{volume}")
    rows = [("EXPRESSION", "VALUE", "THRESHOLD", "AGE", "REACHED IN")]
    for value in reading.values:
        shown, reached = value.value or "no data", _between(value.reached, found)
        rows.append((_short(value.expression), shown, _threshold(value), _age(value, found), reached))
    _table(rows)
    why = f": {reading.unknown}" if reading.unknown else ""
    _print(f"conditions: {_CONDITIONS[reading.conditions]}{why}")
    _show_candidates(reading)
    since = f" for {_between(reading.since, found)}" if reading.since else ""
    _print(f"state:      {reading.state or 'no AutopilotRuleObject'}{since}")
    _print(f"waits for:  {_waiting(found, reading) or 'nothing'}")
    # Not "would do": `rule test` says of the same object that nothing would be done now.
    _print(f"{'once met' if reading.conditions == 'NotMet' else 'would do'}:   {reading.would}")


def _show_candidates(reading: RuleReading) -> None:
    """A tree: each candidate, and below it its comparisons."""
    for candidate in reading.candidates:
        chosen = ", chosen" if candidate.name == reading.candidate else ""
        _print(f"candidate {candidate.name}: {'holds' if candidate.holds else 'does not hold'}{chosen}")
        for number, link in enumerate(candidate.links, 1):
            branch = "└─" if number == len(candidate.links) else "├─"
            held = {True: "holds", False: "does not hold", None: "no data"}[link.held]
            where = f"{link.level} {link.object}".strip()
            value = f" is {link.value}" if link.value else ""
            _print(f"{branch} {where}: {_short(link.expression)}{value} ({_threshold(link)}): {held}")


def _show_all(found: Sequence[ExplainedNamespace]) -> None:
    rules = {reading.rule for each in found for reading in each.objects}
    rows = [("OBJECT", "VALUES", "AGE", "CONDITIONS", "STATE", "WAITS FOR")]
    for each in found:
        for reading in each.objects:
            rule = f" under {reading.rule}" if len(rules) > 1 else ""
            values = ", ".join(value.value or "no data" for value in reading.values)
            ages = [_age(value, each) for value in reading.values if value.time]
            rows.append((
                f"{each.namespace}/{reading.object}{rule}",
                values,
                ages[0] if ages else "",
                _CONDITIONS[reading.conditions],
                reading.state,
                "; ".join(filter(None, (reading.unknown, _waiting(each, reading)))),
            ))  # fmt: skip
    if len(rows) > 1:
        _table(rows)
    for each in found:
        if each.left_out:
            _print(f"{each.namespace}: {each.left_out} further objects are left out", err=True)


def _waiting(found: ExplainedNamespace, reading: RuleReading) -> str:
    if (waiting := reading.waiting) is None:
        return ""
    remedy = f" ({waiting.remedy})" if waiting.remedy else ""
    left = f", {_between(waiting.until, found)} left" if waiting.until else ""
    return f"{waiting.message}{left}{remedy}"


def _threshold(value: MeasuredValue) -> str:
    return f"{value.operator} {' '.join(value.threshold)}".strip()


def _age(value: MeasuredValue, found: ExplainedNamespace) -> str:
    return _between(value.time, found) if value.time else ""


def _between(moment: str | None, found: ExplainedNamespace) -> str:
    """How far a moment is from the answer."""
    from pilothouse.base.duration import human_age
    from pilothouse.base.rfc3339 import parse_time

    return human_age(abs(parse_time(moment) - found.now)) if moment else ""


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST else f"{line[: _LONGEST - 3]}..."


def _table(rows: Sequence[tuple[str, ...]]) -> None:
    for line in _lines(rows):
        _print(line)


def _lines(rows: Sequence[tuple[str, ...]]) -> Iterator[str]:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        yield "   ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()


def _print(text: str, *, err: bool = False) -> None:
    for line in text.split("\n"):
        click.echo(escape_control_characters(line), err=err)
