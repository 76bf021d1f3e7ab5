"""``pilothouse audit``: the audit trail of all instances, through the API."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from pilothouse.base.terminal_text import escape_control_characters
from pilothouse.cli.server_access import access, server_flags
from pilothouse.cli.waiting import waiting_for

PATH = "/pilothouse/v1/audit"
_INSTANCE = "pilothouse.io/instance"
_FOLLOWED = "10"
"""How many past records --follow shows first."""
_ROW = "{:<27}  {:<24}  {:<16}  {:<44}  {:<4}  {:<15}  {}"
_HEAD = _ROW.format("TIME", "USER", "VERB", "OBJECT", "CODE", "FROM", "SERVED BY")


@click.command()
@click.option("--user", default="", help="Only requests of this user, impersonated or not.")
@click.option(
    "--object",
    "object_",
    default="",
    help="Only requests for this object or resource, such as pods/web-0 or pods.",
)
@click.option("-n", "--namespace", default="", help="Only requests in this namespace.")
@click.option(
    "--verb",
    default="",
    help="Only requests with this verb: get, list, watch, create, update, patch, delete …",
)
@click.option(
    "--since",
    default="",
    help="Only records newer than a duration such as 90s or 1h, or a time such as 2006-01-02T15:04:05Z.",
)
@click.option("--limit", type=click.IntRange(1), help="Records to show. Default: 1000; 10 with --follow.")
@click.option("-f", "--follow", is_flag=True, help="Follow new records.")
@click.option(
    "-o",
    "--output",
    type=click.Choice(["table", "json"]),
    default="table",
    help="json prints one record per line.",
)
@server_flags
def audit(output: str, kubeconfig: Path | None, data: Path | None, **asked: Any) -> None:
    """Show which requests the API got, when, from whom and from where, and the results.

    The records of all instances of the server are shown, in order of time. If none matches, the exit code is
    0 and standard error says so.
    """
    from pilothouse.client.single_request import RequestFailed, send_request

    reached = access(kubeconfig, data)
    try:
        with (
            waiting_for(reached.url) as end_wait,
            send_request(reached, PATH, _params(asked), agent="pilothouse-audit") as answer,
        ):
            end_wait()
            for warning in answer.warnings:
                _warn(warning)
            shown = _show(iter(answer), output)
            if not shown and not asked["follow"]:
                click.echo("No audit records found.", err=True)
    except RequestFailed as problem:
        raise click.ClickException(str(problem)) from None
    except KeyboardInterrupt:
        pass  # Ctrl-C stops following.


def _params(asked: dict[str, Any]) -> dict[str, str]:
    params = {name: asked[name] for name in ("user", "namespace", "verb", "since") if asked[name]}
    if asked["object_"]:
        params["object"] = asked["object_"]
    if asked["limit"]:
        params["limit"] = str(asked["limit"])
    if asked["follow"]:
        params["follow"] = "true"
        if not asked["since"]:
            params.setdefault("limit", _FOLLOWED)
    return params


def _show(lines: Iterator[bytes], output: str) -> int:
    """Print the records as they come. Returns how many there were."""
    import msgspec

    shown = 0
    for line in lines:
        record = msgspec.json.decode(line)
        if record.get("kind") == "Status":
            if record.get("status") == "Failure":
                _warn(record.get("message", ""))
            continue
        if output == "json":
            click.echo(line, nl=False)
        else:
            if not shown:
                click.echo(_HEAD)
            click.echo(escape_control_characters(_row(record)))
        shown += 1
    return shown


def _row(record: dict[str, Any]) -> str:
    user = record.get("user", {}).get("username", "") or "-"
    if acting := record.get("impersonatedUser", {}).get("username"):
        user = f"{user} as {acting}"
    verb = record.get("verb", "")
    if record.get("stage") != "ResponseComplete":
        verb = f"{verb} ({record.get('stage', '').removeprefix('Response').lower()})"
    code = str(record.get("responseStatus", {}).get("code", ""))
    source = ",".join(record.get("sourceIPs", []))
    server = record.get("annotations", {}).get(_INSTANCE, "")
    return _ROW.format(
        record.get("stageTimestamp", ""), user, verb, _object(record), code, source, server
    ).rstrip()


def _object(record: dict[str, Any]) -> str:
    reference = record.get("objectRef")
    if not reference:
        return str(record.get("requestURI", "").partition("?")[0])
    parts = (reference.get(name, "") for name in ("resource", "name", "subresource"))
    what = "/".join(part for part in parts if part)
    namespace = reference.get("namespace", "")
    return f"{namespace}: {what}" if namespace and reference.get("resource") != "namespaces" else what


def _warn(text: str) -> None:
    click.echo(f"Warning: {escape_control_characters(text)}", err=True)
