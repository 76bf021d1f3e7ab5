"""``pilothouse prometheus-config``: what to put into Prometheus' configuration to watch a server."""

from __future__ import annotations

from pathlib import Path

import click

from pilothouse.cli.store_flags import FILE, access, server_flags

CREDENTIALS = Path("pilothouse-credentials")


@click.command("prometheus-config")
@server_flags
@click.option(
    "--token-file",
    type=FILE,
    help="Bearer token to use instead of the kubeconfig's user; one in the group system:monitoring will do.",
)
@click.option(
    "--credentials",
    type=click.Path(file_okay=False, path_type=Path),
    default=CREDENTIALS,
    show_default=True,
    help="Folder that certificates are written to, for Prometheus to read.",
)
def prometheus_config(
    kubeconfig: Path | None, data: Path | None, token_file: Path | None, credentials: Path
) -> None:
    """Print the configuration by which Prometheus scrapes a server: its own metrics, and the state of its objects.

    It is a complete prometheus.yml; its jobs can also be put into another one.
    """
    reached = access(kubeconfig, data)

    from pilothouse.apiserver.yaml_answers import write
    from pilothouse.app.prometheus import scrape_config, unpack

    try:
        files = unpack(reached, credentials, token_file)
    except OSError as problem:
        raise click.ClickException(
            f"{problem.filename or credentials} can't be written: {problem.strerror}"
        ) from None
    import msgspec

    click.echo(write(msgspec.json.encode(scrape_config(reached.url, files))).decode(), nl=False)
    for file in files.written:
        click.echo(f"Prometheus must be able to read {file}", err=True)
