"""``pilothouse policy``: the modules of policies, and what policies in a file would do."""

from __future__ import annotations

import os
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pilothouse.base.terminal_text import escape_control_characters
from pilothouse.cli.parameters import FILE
from pilothouse.cli.rule_test import show_reports, test_flags

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pilothouse.api.policies.expansion import PolicyProblem
    from pilothouse.api.policies.policy_module import PolicyModule, PolicyTemplate


@click.group()
def policy() -> None:
    """List, show and test the ready-made rules of applications; see also `pilothouse rule`."""


@policy.command("list")
def list_modules() -> None:
    """List the applications that have policies, and what these were tried on."""
    rows = [("APPLICATION", "POLICIES", "TRIED ON")]
    for module in _modules():
        rows.append((module.name, ", ".join(each.name for each in module.policies), module.tried))
    _table(rows)


@policy.command("show")
@click.argument("application")
@click.argument("name", metavar="[POLICY]", default="")
@click.option(
    "--set",
    "settings",
    metavar="NAME=VALUE",
    multiple=True,
    help="A parameter of POLICY that differs from its default. Repeatable.",
)
@click.option(
    "-o",
    "--output",
    type=click.Choice(["text", "json", "yaml"]),
    default="text",
    show_default=True,
    help="Output format; json and yaml print the AutopilotRules that policies become.",
)
def show(application: str, name: str, settings: Sequence[str], output: str) -> None:
    """Show the policies of APPLICATION, or one: its parameters, and the metrics that it needs."""
    module = next((each for each in _modules() if each.name == application), None)
    if module is None:
        known = ", ".join(each.name for each in _modules())
        raise click.ClickException(f"there is no module {application!r}; there are {known}")
    chosen = [each for each in module.policies if name in ("", each.name)]
    if not chosen:
        known = ", ".join(each.name for each in module.policies)
        raise click.ClickException(f"{application} has no policy {name!r}; it has {known}")
    if settings and not name:
        raise click.UsageError("--set needs a POLICY")
    rules = _expanded(module, chosen, dict(map(_setting, settings)))
    if output == "text":
        for number, template in enumerate(chosen):
            if number:
                _print("")
            _show(module, template)
    else:
        _encode(rules, output)


@policy.command("test")
@click.argument("file", type=FILE)
@test_flags
@click.pass_context
def test(
    context: click.Context,
    file: Path,
    output: str,
    at: datetime | None,
    without_server: bool,
    kubeconfig: Path | None,
    data: Path | None,
) -> None:
    """Show what the ApplicationPolicy, AutopilotRule or StoragePolicy in FILE would do now.

    As `pilothouse rule test`; the configuration file is given as `pilothouse -f FILE policy test`.
    """
    config = context.find_root().params.get("config") or os.environ.get("CONFIG_FILE")
    show_reports(file, Path(config) if config else None, output, at, without_server, kubeconfig, data)


def _modules() -> Sequence[PolicyModule]:
    from pilothouse.api.policies.module_registry import InvalidModule, modules

    try:
        return modules()
    except InvalidModule as problem:
        raise click.ClickException(str(problem)) from None


def _setting(text: str) -> tuple[str, str]:
    name, sign, value = text.partition("=")
    if not sign:
        raise click.BadParameter(f"{text!r} is not NAME=VALUE, such as threshold=70", param_hint="--set")
    return name, value


def _expanded(
    module: PolicyModule, chosen: Sequence[PolicyTemplate], parameters: dict[str, str]
) -> list[dict[str, object]]:
    """The rules, named as those of an ApplicationPolicy that is named like the module."""
    from pilothouse.api.kind_names import AutopilotRule
    from pilothouse.api.policies.expansion import expand

    policies = [{"name": each.name, "parameters": parameters} for each in chosen]
    found = expand(module.name, {"application": module.name, "policies": policies})
    if found.problems:
        raise click.ClickException("; ".join(map(_problem_text, found.problems)))
    kind = {"apiVersion": AutopilotRule.api_version, "kind": AutopilotRule.kind}
    return [{**kind, "metadata": {"name": each.name}, "spec": each.spec} for each in found.rules]


def _problem_text(problem: PolicyProblem) -> str:
    """With the name of the parameter, which the message about its value lacks."""
    if problem.reason == "InvalidParameter":
        return f"--set {problem.path.rpartition('.')[2]}: {problem.message}"
    return problem.message


def _show(module: PolicyModule, template: PolicyTemplate) -> None:
    _print(f"{module.name} {template.name}")
    _print(f"  {template.summary}")
    if template.enforcement:
        only = ", always" if template.asks else ""
        _print(f"  enforcement: {template.enforcement} by default{only and '; a person decides' + only}")
    rows = [("PARAMETER", "TYPE", "DEFAULT", "BOUNDS", "MEANING")]
    for each in template.parameters:
        rows.append((each.name, each.type, each.default or "none", each.bounds, each.summary))
    _table(rows, "  ")
    _print("  metrics:")
    for source in template.sources:
        optional = ", if there are any" if source.optional else ""
        _print(f"    {source.exporter}{optional}: {', '.join(source.metrics)}")


def _encode(rules: Sequence[dict[str, object]], output: str) -> None:
    import msgspec

    if output == "json":
        whole: object = (
            rules[0] if len(rules) == 1 else {"apiVersion": "v1", "kind": "List", "items": list(rules)}
        )
        _print(msgspec.json.format(msgspec.json.encode(whole)).decode())
        return
    from pilothouse.apiserver.server.yaml_encoding import write

    _print("---\n".join(write(msgspec.json.encode(each)).decode() for each in rules).rstrip())


def _table(rows: Sequence[tuple[str, ...]], indent: str = "") -> None:
    for line in _lines(rows):
        _print(f"{indent}{line}")


def _lines(rows: Sequence[tuple[str, ...]]) -> Iterator[str]:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        yield "   ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()


def _print(text: str) -> None:
    for line in text.split("\n"):
        click.echo(escape_control_characters(line))
