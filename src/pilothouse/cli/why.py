"""``pilothouse why``: explain the state of an object."""

from __future__ import annotations

from pathlib import Path

import click

from pilothouse.cli.error_output import errors_in_one_line
from pilothouse.cli.server_access import access, server_flags
from pilothouse.cli.waiting import waiting_for


@click.command()
@click.argument("kind", metavar="KIND[/NAME]")
@click.argument("name", required=False, default="")
@click.option(
    "-n", "--namespace", default="", help="Namespace of the object. Default: the kubeconfig's, or default."
)
@click.option(
    "-v", "--verbose", is_flag=True, help="Also show what was read, decided and done, and all recent events."
)
@click.option(
    "-o",
    "--output",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="Output format.",
)
@server_flags
def why(
    kind: str,
    name: str,
    namespace: str,
    verbose: bool,
    output: str,
    kubeconfig: Path | None,
    data: Path | None,
) -> None:
    """Explain the state of an object: what is wrong, since when, and what would help.

    pilothouse why statefulset/web -n shop

    The exit code is 1 if there is no such object.
    """
    if "/" in kind:
        if name:
            raise click.UsageError(f"{kind} already has a name; write KIND NAME or KIND/NAME")
        kind, _, name = kind.partition("/")
    if not kind or not name:
        raise click.UsageError("no object is given; write KIND NAME or KIND/NAME, such as statefulset/web")
    reached = access(kubeconfig, data)

    import asyncio

    import msgspec

    from pilothouse.app.why import diagnose, explain
    from pilothouse.client.discovery import NoSuchKind

    try:
        with waiting_for(reached.url), errors_in_one_line(reached.url):
            findings = asyncio.run(diagnose(reached, kind, name, namespace))
    except NoSuchKind as problem:
        raise click.ClickException(str(problem)) from None
    if output == "json":
        click.echo(msgspec.json.format(msgspec.json.encode(findings)))
    else:
        click.echo(explain(findings, verbose=verbose))
    if not findings.about.exists:
        raise SystemExit(1)
