"""``pilothouse encryption``: the keys that secrets are encrypted with in the store."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from pilothouse.cli.server_access import access, server_flags
from pilothouse.cli.waiting import waiting_for

_PATH = "/pilothouse/v1/encryption"


@click.group()
def encryption() -> None:
    """Manage the keys that secrets are encrypted with in the store.

    To rotate a key: add a new one as the second in the key file of every server and restart them, one after
    the other; move it to the first place and restart them again; `pilothouse encryption rewrite`; remove the
    old one.
    """


@encryption.command("new-key")
@click.argument("name")
def new_key(name: str) -> None:
    """Print a line for a key file, with a new key called NAME."""
    from pilothouse.pki.encryption_keys import new_key_line

    try:
        click.echo(new_key_line(name))
    except ValueError as problem:
        raise click.BadParameter(str(problem), param_hint="NAME") from None


@encryption.command()
@server_flags
def status(kubeconfig: Path | None, data: Path | None) -> None:
    """Show the keys of a server, and how many values each encrypts: Secrets, and in etcd the servers' own
    keys."""
    (found,) = _ask("GET", _PATH, kubeconfig, data)
    keys, sealed = found["keys"], found["sealed"]
    rows = [("KEY", "VALUES", "")]
    rows += [(name, str(sealed.get(name, 0)), "writes" if name == keys[0] else "reads") for name in keys]
    rows += [(name, str(sealed[name]), "missing: they can't be read") for name in found["missing"]]
    if found["plain"] or not keys:
        rows.append(("(none)", str(found["plain"]), "not encrypted"))
    widths = [max(len(row[column]) for row in rows) for column in range(2)]
    for name, count, meaning in rows:
        click.echo(f"{name:<{widths[0]}}  {count:>{widths[1]}}  {meaning}".rstrip())


@encryption.command()
@server_flags
def rewrite(kubeconfig: Path | None, data: Path | None) -> None:
    """Have a running server encrypt with its first key every secret that is not.

    Only the resourceVersion of a Secret changes. The command can be interrupted and run again.
    """
    said = _ask("POST", f"{_PATH}/rewrite", kubeconfig, data)
    last = said[-1] if said else {}
    if not last.get("done"):
        why = last.get("error", "the server closed the connection")
        raise click.ClickException(f"not all values were rewritten: {why}; run the command again")
    click.echo(f"{last['rewritten']} of {last['seen']} values were rewritten; the others were up to date")
    for problem in last["failed"]:
        click.echo(f"not rewritten: {problem}", err=True)
    if last["failed"]:
        raise SystemExit(1)


def _ask(method: str, path: str, kubeconfig: Path | None, data: Path | None) -> list[dict[str, Any]]:
    from pilothouse.client.single_request import RequestFailed, send_request

    reached = access(kubeconfig, data)
    try:
        with (
            waiting_for(reached.url) as answered,
            send_request(reached, path, {}, agent="pilothouse-encryption", method=method) as answer,
        ):
            answered()
            return [json.loads(line) for line in answer]
    except RequestFailed as problem:
        raise click.ClickException(str(problem)) from None
