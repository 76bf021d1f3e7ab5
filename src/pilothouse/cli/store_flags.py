"""Flags that several commands have in common: where data is, and how to reach etcd."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from pilothouse.app.options import default_data
from pilothouse.app.plane_discovery import VARIABLE
from pilothouse.cli.flags import Command, several
from pilothouse.cli.parameters import FILE, DataPath, Network, Urls
from pilothouse.store.factory import BACKENDS, EtcdOptions, StoreKind, StoreOptions


def data_flag(text: str) -> Callable[[Command], Command]:
    """``--data`` of commands that make the folder if need be, with a help text."""
    return click.option(
        "--data",
        type=DataPath(),
        envvar=VARIABLE,
        default=default_data,
        show_default=f"{VARIABLE}, else /var/lib/pilothouse for root and the user's data folder for others",
        help=text,
    )


def store_flag(text: str, *, durable: bool = False) -> Callable[[Command], Command]:
    """``--store``, with a help text; ``durable`` leaves out the stores that end with their server."""
    kinds = [kind for kind, backend in BACKENDS.items() if backend.durable or not durable]
    return click.option("--store", type=click.Choice(kinds), default="sqlite", show_default=True, help=text)


etcd_flags = several(
    click.option(
        "--etcd-servers", type=Urls(), default=(), help="URLs of etcd's members, separated by commas."
    ),
    click.option("--etcd-cafile", type=FILE, help="CA of etcd's certificates."),
    click.option("--etcd-certfile", type=FILE, help="Client certificate for etcd."),
    click.option("--etcd-keyfile", type=FILE, help="Key of that certificate."),
    click.option("--etcd-prefix", default="", help="Prefix of all keys in etcd."),
)
"""``--etcd-…``; read with ``etcd_options``."""


def admission_flag(text: str) -> Callable[[Command], Command]:
    """``--admission-control-config-file``, with a help text."""
    return click.option("--admission-control-config-file", type=FILE, help=text)


def node_address_flag(command: Command) -> Command:
    """``--node-address-cidr``."""
    return click.option(
        "--node-address-cidr",
        "node_address_cidrs",
        type=Network(),
        multiple=True,
        help="Addresses that nodes may have beside the one that each connects from, where a load balancer "
        "or NAT is in between. May be repeated.",
    )(command)


def encryption_flag(command: Command) -> Command:
    """``--encryption-key-file``."""
    return click.option(
        "--encryption-key-file",
        type=FILE,
        help="Key file of the servers, if they have one: the keys may be encrypted with it.",
    )(command)


def etcd_options(flags: dict[str, Any]) -> EtcdOptions:
    """What the flags say."""
    return EtcdOptions(
        servers=flags["etcd_servers"],
        ca_file=flags["etcd_cafile"],
        cert_file=flags["etcd_certfile"],
        key_file=flags["etcd_keyfile"],
        prefix=flags["etcd_prefix"],
    )


def check_store(store: StoreKind, etcd: EtcdOptions) -> None:
    """Refuse flags that contradict each other."""
    try:
        StoreOptions(kind=store, etcd=etcd).check()
    except ValueError as problem:
        raise click.UsageError(str(problem)) from None
