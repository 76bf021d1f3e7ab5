"""``pilothouse rule test``: what rules would do now."""

from __future__ import annotations

import os
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pilothouse.base.plurals import counted
from pilothouse.base.terminal_text import escape_control_characters
from pilothouse.cli.error_output import errors_in_one_line
from pilothouse.cli.flags import several
from pilothouse.cli.parameters import FILE
from pilothouse.cli.server_access import access, server_flags

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pilothouse.app.rule_files import RuleInFile
    from pilothouse.client.access import Access
    from pilothouse.rules.rule_reports import ExpressionReading, ObjectReport, RuleReport

config_flag = click.option(
    "-f",
    "--autopilot-config",
    "config",
    type=FILE,
    envvar="CONFIG_FILE",
    help="Configuration file that names metrics providers. Environment: CONFIG_FILE. Default: metrics are "
    "read through the server.",
)
test_flags = several(
    click.option(
        "-o",
        "--output",
        type=click.Choice(["table", "json"]),
        default="table",
        show_default=True,
        help="Output format.",
    ),
    click.option(
        "--at",
        type=click.DateTime(["%Y-%m-%dT%H:%M:%SZ", "%Y-%m-%dT%H:%M:%S%z"]),
        metavar="TIME",
        help="Evaluate as of this time, such as 2026-11-18T12:00:00Z. Needs a Prometheus.",
    ),
    click.option(
        "--without-server",
        is_flag=True,
        help="Ask no API server: show all objects that metrics name, whatever the rule selects.",
    ),
    server_flags,
)


@click.command("test")
@click.argument("file", type=FILE)
@click.option(
    "--fixtures",
    type=FILE,
    help="File of series, objects and expected states, in promtool's form, instead of metrics and a server.",
)
@config_flag
@test_flags
def test(
    file: Path,
    fixtures: Path | None,
    config: Path | None,
    output: str,
    at: datetime | None,
    without_server: bool,
    kubeconfig: Path | None,
    data: Path | None,
) -> None:
    """Show what the rules in FILE would do now: objects, values, and actions. Nothing is stored.

    FILE holds AutopilotRules, ApplicationPolicies, which are expanded, or StoragePolicies of 2019, which are
    translated. Without a server, all objects that metrics name are shown. The exit code is 1 if something
    can't be evaluated, or differs from the fixtures.
    """
    if fixtures is not None:
        check_fixtures(file, fixtures, output)
        return
    show_reports(file, config, output, at, without_server, kubeconfig, data)


def show_reports(
    file: Path,
    config: Path | None,
    output: str,
    at: datetime | None,
    without_server: bool,
    kubeconfig: Path | None,
    data: Path | None,
) -> None:
    """Evaluate and print; exits with 1 if something has no answer."""
    import asyncio

    from pilothouse.app.rule_test import RuleTestError, report_rules
    from pilothouse.rules.providers.autopilot_config import ConfigError

    rules = rules_of(file)
    reached = None if without_server else _access(kubeconfig, data)
    moment = at.timestamp() if at is not None and at.tzinfo else None
    if at is not None and moment is None:
        from datetime import UTC

        moment = at.replace(tzinfo=UTC).timestamp()
    try:
        with errors_in_one_line(reached.url if reached is not None else ""):
            reports = asyncio.run(report_rules(rules, reached, config, moment))
    except (RuleTestError, ConfigError) as problem:
        raise click.ClickException(str(problem)) from None
    if output == "json":
        import msgspec

        _print(msgspec.json.format(msgspec.json.encode(reports)).decode())
    else:
        for rule, report in zip(rules, reports, strict=True):
            _show_translation(rule)
            _show(report)
    if any(report.failures for report in reports):
        raise SystemExit(1)


def check_fixtures(file: Path, fixtures: Path, output: str) -> None:
    """Run the rules over the fixtures; exits with 1 if an expectation is not met."""
    import msgspec

    from pilothouse.app.rule_files import RuleFileError, documents
    from pilothouse.rules.rule_fixtures import FixtureError, run_fixtures

    rules = rules_of(file)
    try:
        tree = next(documents(fixtures.read_bytes()), None)
        found = run_fixtures(tree, [each.terms for each in rules])
    except (FixtureError, RuleFileError) as problem:
        raise click.ClickException(f"{fixtures}: {problem}") from None
    if output == "json":
        _print(msgspec.json.format(msgspec.json.encode(found)).decode())
    else:
        for each in found.mismatches:
            _print(
                f"{each.test}: {each.object} at {each.eval_time}: {each.what}: expected {each.expected}, "
                f"found {each.found}"
            )
        failed = len(found.mismatches)
        _print(f"{counted(found.checks, 'check')}, {failed} {'mismatch' if failed == 1 else 'mismatches'}")
    for warning in found.warnings:
        click.echo(escape_control_characters(f"warning: {warning}"), err=True)
    if found.mismatches:
        raise SystemExit(1)


def rules_of(file: Path) -> Sequence[RuleInFile]:
    """The rules in a file. Raises ``click.ClickException``."""
    from pilothouse.app.rule_files import RuleFileError, rules_in

    try:
        return rules_in(file.read_bytes())
    except RuleFileError as problem:
        raise click.ClickException(f"{file}: {problem}") from None


def _access(kubeconfig: Path | None, data: Path | None) -> Access | None:
    """The server, or None if none is named and none is found."""
    named = os.environ.get("KUBERNETES_CONFIG")
    if kubeconfig is None and data is None and named:
        kubeconfig = Path(named)
    if kubeconfig is not None or data is not None:
        return access(kubeconfig, data)
    try:
        return access(None, None)
    except click.ClickException as problem:
        _print(f"without a server: {problem.message}", err=True)
        return None


def _show_translation(rule: RuleInFile) -> None:
    if not rule.translated:
        return
    import msgspec

    from pilothouse.apiserver.server.yaml_encoding import write

    _print("# The StoragePolicy as an AutopilotRule:")
    _print(write(msgspec.json.encode(rule.tree)).decode().rstrip())
    for note in rule.notes:
        _print(f"# {note}")
    _print("---")


def _show(report: RuleReport) -> None:
    _print(f"rule {report.rule}: {counted(len(report.objects), 'object')}")
    rows = [("OBJECT", "EXPRESSION", "VALUE", "THRESHOLD", "MET")]
    for each in report.objects:
        name = f"{each.namespace}/{each.name}" if each.namespace else each.name
        for number, reading in enumerate(each.readings):
            rows.append((name if not number else "", *_cells(reading)))
    if len(rows) > 1:
        widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
        for row in rows:
            _print("   ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
    for each in report.objects:
        if each.met:
            _print(f"would: {_named(each)}: {each.would}")
    if report.objects and not any(each.met for each in report.objects):
        _print("would do nothing now")
    for warning in report.warnings:
        _print(f"warning: {warning}", err=True)
    for failure in report.failures:
        _print(f"error: {failure}", err=True)


def _named(each: ObjectReport) -> str:
    return f"{each.namespace}/{each.name}" if each.namespace else each.name


def _cells(reading: ExpressionReading) -> tuple[str, str, str, str]:
    text = " ".join(reading.expression.split())
    shown = text if len(text) <= 60 else f"{text[:57]}..."
    values = ", ".join(f"{value:.6g}" for value in reading.values) or "no data"
    met = {True: "yes", False: "no", None: "unknown"}[reading.met]
    return shown, values, f"{reading.operator} {' '.join(reading.threshold)}".strip(), met


def _print(text: str, *, err: bool = False) -> None:
    for line in text.split("\n"):
        click.echo(escape_control_characters(line), err=err)
