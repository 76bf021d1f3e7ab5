"""Flags that several commands have in common: where data is, and how to reach etcd or a server."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from pilothouse.app.options import EtcdOptions, default_data
from pilothouse.cli.parameters import Urls

if TYPE_CHECKING:
    from pilothouse.client.access import Access

Command = TypeVar("Command", bound=Callable[..., Any])

ADMIN = "admin.kubeconfig"
FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


def data_flag(text: str) -> Callable[[Command], Command]:
    """``--data``, with a help text."""
    return click.option(
        "--data",
        type=click.Path(path_type=Path),
        default=default_data,
        show_default="/var/lib/pilothouse for root, else the user's data folder",
        help=text,
    )


def etcd_flags(command: Command) -> Command:
    """``--etcd-…``; read with ``etcd_options``."""
    for flag in (
        click.option("--etcd-prefix", default="", help="What goes before each key in etcd."),
        click.option("--etcd-keyfile", type=FILE, help="Key of that certificate."),
        click.option("--etcd-certfile", type=FILE, help="Client certificate to show to etcd."),
        click.option(
            "--etcd-cafile", type=FILE, help="Authority that etcd's certificates are checked against."
        ),
        click.option("--etcd-servers", type=Urls(), default=(), help="etcd's members, separated by commas."),
    ):
        command = flag(command)
    return command


def encryption_flag(command: Command) -> Command:
    """``--encryption-key-file``."""
    return click.option(
        "--encryption-key-file",
        type=FILE,
        help="The servers' own, if they have one: the keys may be sealed with it.",
    )(command)


def server_flags(command: Command) -> Command:
    """``--kubeconfig`` and ``--data``; read with ``access``."""
    command = click.option(
        "--data",
        type=click.Path(path_type=Path),
        help="The server's data folder, whose admin.kubeconfig is then used.",
    )(command)
    return click.option(
        "--kubeconfig",
        type=FILE,
        help="How to reach the server; else KUBECONFIG, ~/.kube/config, or the local server's own.",
    )(command)


def access(kubeconfig: Path | None, data: Path | None) -> Access:
    """How the flags say that a server is reached. Raises ``click.ClickException``."""
    from pilothouse.client.kubeconfig import KubeconfigError, find, load

    named = kubeconfig or (data / ADMIN if data else None)
    try:
        return load(find(named, default_data() / ADMIN))
    except KubeconfigError as problem:
        raise click.ClickException(str(problem)) from None


def etcd_options(flags: dict[str, Any]) -> EtcdOptions:
    """What the flags say."""
    return EtcdOptions(
        servers=flags["etcd_servers"],
        ca_file=flags["etcd_cafile"],
        cert_file=flags["etcd_certfile"],
        key_file=flags["etcd_keyfile"],
        prefix=flags["etcd_prefix"],
    )


def check_store(store: str, etcd: EtcdOptions) -> None:
    """Refuse flags that contradict each other."""
    if store == "etcd" and not etcd.servers:
        raise click.UsageError("--store etcd needs --etcd-servers")
    if store != "etcd" and etcd != EtcdOptions():
        raise click.UsageError(f"--etcd-* flags go with --store etcd, not with --store {store}")
