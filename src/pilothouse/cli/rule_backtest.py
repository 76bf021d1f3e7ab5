"""``pilothouse rule backtest``: what rules would have done."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pilothouse.base.plurals import counted
from pilothouse.base.terminal_text import escape_control_characters
from pilothouse.cli.parameters import FILE
from pilothouse.cli.rule_test import rules_of

if TYPE_CHECKING:
    from pilothouse.rules.backtest import BacktestResult

_RANGE = re.compile(r"([0-9]{1,6})([dhm])")
_DEFAULT_RANGE = "7d"
_UNITS = {"d": 86400, "h": 3600, "m": 60}


@click.command("backtest")
@click.argument("file", type=FILE)
@click.argument("other", type=FILE, required=False)
@click.option("--from", "recorded", type=FILE, help="File of series: OpenMetrics, or JSON of query_range.")
@click.option("--prometheus", metavar="URL", help="Prometheus that has the series.")
@click.option(
    "--range", "span", help=f"How far back to go with --prometheus, such as 12h.  [default: {_DEFAULT_RANGE}]"
)
@click.option(
    "--refuses-after",
    type=click.IntRange(min=0),
    metavar="NUMBER",
    help="Model a storage that grows each volume so many times, and refuses from then on.",
)
@click.option(
    "-f",
    "--autopilot-config",
    "config",
    type=FILE,
    envvar="CONFIG_FILE",
    help="Configuration file of the controller-manager, whose budget holds for all rules together. "
    "Environment: CONFIG_FILE.",
)
@click.option(
    "--html", type=click.Path(dir_okay=False, path_type=Path), help="Also write a page with charts."
)
@click.option(
    "-o",
    "--output",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="Output format.",
)
def backtest(
    file: Path,
    other: Path | None,
    recorded: Path | None,
    prometheus: str | None,
    span: str | None,
    refuses_after: int | None,
    config: Path | None,
    html: Path | None,
    output: str,
) -> None:
    """Run the rules in FILE over recorded series, and show what they would have done; with OTHER, the
    difference. ApplicationPolicies are expanded.

    The rules run on a virtual clock, and the effect of each action is modelled on the series.
    """
    import msgspec

    from pilothouse.app.rule_backtest import series_of_file, series_of_prometheus
    from pilothouse.rules.backtest import BacktestError
    from pilothouse.rules.backtest import backtest as run_backtest
    from pilothouse.rules.promql.query_errors import NotInSubset, QueryError
    from pilothouse.rules.providers.autopilot_config import ConfigError, read_config
    from pilothouse.rules.recorded_series import RecordingError

    if (recorded is None) == (prometheus is None):
        raise click.UsageError("give either --from FILE or --prometheus URL")
    if prometheus is None and span is not None:
        raise click.UsageError("--range needs --prometheus: all of a file is used")
    files = [file] if other is None else [file, other]
    rules = [[each.terms for each in rules_of(one)] for one in files]
    every = [each for one in rules for each in one]
    try:
        budget = read_config(config).budget if config is not None else None
        if recorded is not None:
            series = series_of_file(recorded.read_bytes(), every)
        else:
            series = series_of_prometheus(str(prometheus), _seconds(span or _DEFAULT_RANGE), every)
        results = [run_backtest(one, series, refuses_after=refuses_after, budget=budget) for one in rules]
    except (BacktestError, ConfigError, RecordingError, QueryError) as problem:
        raise click.ClickException(str(problem)) from None
    except NotInSubset as problem:
        raise click.ClickException(f"a backtest can't evaluate {problem}") from None
    if output == "json":
        _print(msgspec.json.format(msgspec.json.encode(results)).decode())
    else:
        for one, result in zip(files, results, strict=True):
            _show(one, result)
        if len(results) == 2:
            _show_difference(*results)
    if html is not None:
        from pilothouse.rules.backtest_page import backtest_page

        html.write_text(backtest_page(results))
        click.echo(f"wrote {html}", err=True)


def _show(file: Path, result: BacktestResult) -> None:
    from pilothouse.base.duration import human_age

    _print(f"{file}: {', '.join(result.rules)} over {human_age(result.end - result.start)}")
    _print(f"  actions: {len(result.actions)} ({result.actions_a_day:.2f} a day)")
    if result.refused:
        _print(f"  refused by the storage: {result.refused}")
    _print(f"  flaps: {result.flaps}")
    _print(f"  minutes above 95 %: {result.minutes_above:g}")
    for each in result.volumes:
        if each.actions or each.minutes_above:
            _print(
                f"  {each.name}: {each.first_size} -> {each.last_size}, {counted(each.actions, 'action')}, "
                f"{counted(each.minutes_above, 'minute')} above 95 %"
            )
    for warning in result.warnings:
        click.echo(escape_control_characters(f"warning: {warning}"), err=True)


def _show_difference(first: BacktestResult, second: BacktestResult) -> None:
    from pilothouse.rules.backtest import difference

    found = difference(first, second)
    _print(f"difference: {counted(len(found), 'volume')}" if found else "difference: none")
    for line in found:
        _print(f"  {line}")


def _seconds(span: str) -> float:
    found = _RANGE.fullmatch(span)
    if found is None or not int(found[1]):
        raise click.BadParameter(f"{span!r} is not a duration such as 7d, 12h or 90m", param_hint="--range")
    return float(int(found[1]) * _UNITS[found[2]])


def _print(text: str) -> None:
    for line in text.split("\n"):
        click.echo(escape_control_characters(line))
