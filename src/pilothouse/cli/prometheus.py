"""``pilothouse prometheus-config``: the scrape configuration of a control plane."""

from __future__ import annotations

from pathlib import Path

import click

from pilothouse.app.options import StartError
from pilothouse.app.plane_discovery import UP, running_folders
from pilothouse.cli.parameters import FILE, Listen
from pilothouse.cli.server_access import access, server_flags

CREDENTIALS = Path("pilothouse-credentials")


@click.command("prometheus-config")
@server_flags
@click.option(
    "--token-file",
    type=FILE,
    help="Bearer token to use instead of the kubeconfig's user; its user needs the group system:monitoring.",
)
@click.option(
    "--credentials",
    type=click.Path(file_okay=False, path_type=Path),
    default=CREDENTIALS,
    show_default=True,
    help="Folder to which certificates are written, for Prometheus to read.",
)
@click.option(
    "--manager",
    "managers",
    type=Listen(),
    multiple=True,
    metavar="HOST:PORT",
    help="Address of a controller-manager's metrics (its --listen). May be repeated. That of a local `up` "
    "is found by itself.",
)
def prometheus_config(
    kubeconfig: Path | None,
    data: Path | None,
    token_file: Path | None,
    credentials: Path,
    managers: tuple[tuple[str, int], ...],
) -> None:
    """Print the configuration with which Prometheus scrapes a control plane.

    It covers the metrics of the server, the state of its objects, its nodes, controller-managers, and the
    pilots of all databases. It is a complete prometheus.yml; its jobs can also be copied into another one.
    """
    reached = access(kubeconfig, data)

    from pilothouse.apiserver.server.yaml_encoding import write
    from pilothouse.app.addresses import plain_url
    from pilothouse.app.prometheus_config import scrape_config, unpack

    try:
        files = unpack(reached, credentials, token_file)
    except OSError as problem:
        raise click.ClickException(
            f"{problem.filename or credentials} can't be written: {problem.strerror}"
        ) from None
    import msgspec

    named = [plain_url(*each).removeprefix("http://") for each in managers] or _manager_of_up(
        reached.url, data
    )
    config = scrape_config(reached.url, files, named)
    click.echo(write(msgspec.json.encode(config)).decode(), nl=False)
    if not named:
        click.echo("no controller-manager is known: give its address with --manager HOST:PORT", err=True)
    for file in files.written:
        click.echo(f"Prometheus must be able to read {file}", err=True)


def _manager_of_up(url: str, data: Path | None) -> list[str]:
    """Where the manager of an ``up`` on this machine is, if it is that server's."""
    from pilothouse.app.up_state import running

    for folder in [data.absolute()] if data else running_folders(UP):
        try:
            report = running(folder)
        except StartError:
            # Somebody else's `up`.
            continue
        if report is not None and report.manager and report.url == url:
            return [report.manager]
    return []
