"""``pilothouse token``: the tokens with which machines join."""

from __future__ import annotations

from pathlib import Path

import click

from pilothouse.cli.error_output import errors_in_one_line
from pilothouse.cli.parameters import Duration
from pilothouse.cli.server_access import access, server_flags
from pilothouse.cli.waiting import waiting_for


@click.group()
def token() -> None:
    """Create, list and revoke the tokens with which machines join. Each works once."""


@token.command()
@click.option(
    "--ttl",
    type=Duration(),
    default="24h",
    show_default=True,
    help="How long it is valid; 0 means without limit.",
)
@click.option("--description", default="", help="What it is for; `token list` shows it.")
@click.option(
    "--node",
    default="",
    metavar="NAME",
    help="Name of the node that it is valid for. Default: any free name.",
)
@click.option(
    "--server",
    "servers",
    multiple=True,
    metavar="URL",
    help="URL at which the machine reaches the API server. May be repeated. Default: the kubeconfig's.",
)
@server_flags
def create(
    ttl: float,
    description: str,
    node: str,
    servers: tuple[str, ...],
    kubeconfig: Path | None,
    data: Path | None,
) -> None:
    """Create a token with which one machine can join, and print it.

    On the other machine: pilothouse join -, and paste it there; other users of that machine don't see it
    then.
    """
    from pilothouse.base.node_names import why_no_node_name

    if node and (why := why_no_node_name(node)):
        raise click.UsageError(f"--node {why}")
    reached = access(kubeconfig, data)
    urls = tuple(dict.fromkeys(url.rstrip("/") for url in servers or reached.urls))
    for url in urls:
        if not _has_host_and_port(url):
            raise click.UsageError(f"--server {url}: write it as https://HOST:PORT")

    import asyncio

    from pilothouse.app.bootstrap_tokens import create as make

    with waiting_for(reached.url), errors_in_one_line(reached.url):
        made = asyncio.run(make(reached, urls, lifetime=ttl or None, description=description, node=node))
    click.echo(str(made))
    if not node:
        click.echo(
            "this token is valid for a node of any free name; with --node NAME it is valid for that name "
            "only",
            err=True,
        )
    if (url := next(filter(_is_local, urls), "")) != "":
        from pilothouse.app.addresses import outward_address

        port = url.rpartition(":")[2]
        click.echo(
            f"{url} can be reached only from this machine. For a token that works elsewhere, start the "
            "server with "
            f"--listen 0.0.0.0:{port} and give an address that others can reach: --server https://"
            f"{outward_address() or 'ADDRESS'}:{port}",
            err=True,
        )


@token.command("list")
@server_flags
def list_(kubeconfig: Path | None, data: Path | None) -> None:
    """List tokens, without their secrets."""
    reached = access(kubeconfig, data)

    import asyncio
    import time

    from pilothouse.app.bootstrap_tokens import list_tokens
    from pilothouse.base.duration import human_age

    with waiting_for(reached.url), errors_in_one_line(reached.url):
        found = asyncio.run(list_tokens(reached))
    now = time.time()
    rows = [("TOKEN", "STATE", "EXPIRES IN", "NODE", "USED BY", "DESCRIPTION")]
    for each in found:
        left = "never" if each.expires is None else human_age(max(0.0, each.expires - now))
        rows.append(
            (each.identifier, each.state(now), left, each.node or "any", each.used_by, each.description)
        )
    widths = [max(len(row[column]) for row in rows) for column in range(6)]
    for row in rows:
        click.echo("  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip())


@token.command()
@click.argument("identifier", metavar="TOKEN")
@server_flags
def delete(identifier: str, kubeconfig: Path | None, data: Path | None) -> None:
    """Revoke a token, given as `token list` shows it, or as a whole."""
    reached = access(kubeconfig, data)

    import asyncio

    from pilothouse.app.bootstrap_tokens import revoke

    name = identifier.removeprefix("pilothouse://").partition(".")[0]
    with waiting_for(reached.url), errors_in_one_line(reached.url):
        found = asyncio.run(revoke(reached, name))
    if not found:
        raise click.ClickException(f"token {name} not found; see `pilothouse token list`")
    click.echo(f"token {name} revoked")


def _has_host_and_port(url: str) -> bool:
    from urllib.parse import urlsplit

    try:
        parts = urlsplit(url)
        return parts.scheme == "https" and bool(parts.hostname and parts.port) and not parts.path
    except ValueError:
        return False


def _is_local(url: str) -> bool:
    from ipaddress import ip_address
    from urllib.parse import urlsplit

    host = urlsplit(url).hostname or ""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
