"""The flags of a node, by kubelet's names where it has them, and the options that they make.

@node_flags
def node(kubeconfig: Path | None, lifeline: int | None, **flags: Any): run_node(kubeconfig, lifeline, flags)
"""

from __future__ import annotations

import os
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pilothouse.app.options import StartError
from pilothouse.cli.flags import several
from pilothouse.cli.parameters import FILE, IdCount, Listen, Tier
from pilothouse.cli.update_flags import update_flags, update_options

if TYPE_CHECKING:
    from pilothouse.app.node import NodeOptions

_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")


class Labels(click.ParamType[dict[str, str]]):
    """``KEY=VALUE,…``; in the program, a mapping."""

    name = "key=value,…"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> dict[str, str]:
        if isinstance(value, dict):
            return value
        found = {}
        for part in filter(None, (each.strip() for each in value.split(","))):
            key, equals, text = part.partition("=")
            if not equals or not key:
                self.fail(f"{part!r} is not a label: write KEY=VALUE", param, ctx)
            found[key] = text
        return found


class Taints(click.ParamType[tuple[dict[str, str], ...]]):
    """``KEY=VALUE:EFFECT,…`` or ``KEY:EFFECT``; in the program, as a Node has them."""

    name = "key=value:effect,…"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[dict[str, str], ...]:
        if isinstance(value, tuple):
            return value
        found = []
        for part in filter(None, (each.strip() for each in value.split(","))):
            what, _, effect = part.rpartition(":")
            key, equals, text = what.partition("=")
            if not key or effect not in _EFFECTS:
                self.fail(
                    f"{part!r} is not a taint: write KEY=VALUE:EFFECT, with one of {', '.join(_EFFECTS)}",
                    param,
                    ctx,
                )
            found.append({"key": key, **({"value": text} if equals else {}), "effect": effect})
        return tuple(found)


pod_cidr_flag = click.option(
    "--pod-cidr",
    default="",
    metavar="CIDR",
    help="Range of the pods' addresses. Default: loopback addresses.",
)
tier_flag = click.option(
    "--tier",
    "tiers",
    type=Tier(),
    multiple=True,
    metavar="NAME=FOLDER[,size=SIZE]",
    help="Folder for volumes of storage classes with the parameter tier: NAME, together of at most SIZE. "
    "May be repeated.",
)
max_pods_flag = click.option(
    "--max-pods",
    type=click.IntRange(1, 65535),
    default=110,
    show_default=True,
    help="Maximum number of pods; further ones fail with the reason OutOfpods.",
)
isolation_flags = several(
    click.option(
        "--expose-path",
        "exposed",
        type=click.Path(path_type=Path),
        multiple=True,
        metavar="PATH",
        help="File or folder of this machine that all containers see, read-only, such as /opt. May be "
        "repeated.",
    ),
    click.option(
        "--user-namespace-ids",
        type=IdCount(),
        metavar="FIRST:COUNT",
        help="User and group ids of this machine for pods, 65536 each, if the node is root. Default: "
        "1879048192:268435456.",
    ),
    click.option(
        "--allow-host-users",
        is_flag=True,
        help="Run pods with this machine's own user ids, root included, if its kernel or filesystem can't "
        "map ids.",
    ),
)
node_flags = several(
    click.option(
        "--listen",
        type=Listen(),
        default="0.0.0.0:10250",
        show_default=True,
        help="Address on which the node serves logs, exec and metrics to the API server; port 0 takes a "
        "free one.",
    ),
    click.option(
        "--client-ca-file",
        type=FILE,
        help="Further CA whose client certificates are accepted there, beside the API server's own.",
    ),
    click.option(
        "--node-ip",
        default="",
        help="Address on which other machines reach this one. Default: the one that it connects to the API "
        "server from.",
    ),
    pod_cidr_flag,
    max_pods_flag,
    click.option(
        "--node-labels", type=Labels(), default="", help="Labels of the Node, beside the standard ones."
    ),
    click.option(
        "--register-with-taints", type=Taints(), default="", help="Taints with which the Node is registered."
    ),
    click.option(
        "--stop-pods",
        is_flag=True,
        help="Stop all pods when the node is stopped. Default: leave them running for the next agent.",
    ),
    tier_flag,
    isolation_flags,
    update_flags,
)


def run_node(kubeconfig: Path | None, lifeline: int | None, flags: dict[str, Any]) -> None:
    """Run the node until it is stopped. ``flags`` are those of ``node_flags``, the data folder and the
    name."""
    import asyncio

    from pilothouse.app.node import run
    from pilothouse.app.plane_registry import registered
    from pilothouse.client.access import AccessError

    # What pods of other users read must not depend on the caller's umask; files that they must not read are
    # created with an explicit mode.
    os.umask(0o022)
    if lifeline is not None:
        from pilothouse.app.parent_pipe import await_begin

        await_begin(lifeline)
    try:
        options = _options(kubeconfig, lifeline, flags)
        with ExitStack() as stack:
            if lifeline is None:
                warn = partial(click.echo, err=True)
                stack.enter_context(registered(flags["data"].absolute(), "node", warn))
            restarts = asyncio.run(run(options, announce=click.echo))
        if restarts and options.updates is not None:
            from pilothouse.app.node_updates import start_again

            start_again(options.updates.profile)
    except (StartError, AccessError) as problem:
        raise click.ClickException(str(problem)) from None


def _options(kubeconfig: Path | None, lifeline: int | None, flags: dict[str, Any]) -> NodeOptions:
    from pilothouse.app.addresses import address_towards, is_everywhere
    from pilothouse.app.data_folder import DataFolder
    from pilothouse.app.exposed_paths import checked_paths
    from pilothouse.app.node import NodeOptions
    from pilothouse.app.node_names import check_node_name, default_node_name
    from pilothouse.app.options import read_file
    from pilothouse.client.kubeconfig import load
    from pilothouse.node.machine.node_credentials import NodeCredentials
    from pilothouse.node.settings import DEFAULT_RANGE, NodeSettings
    from pilothouse.supervise.launch_spec import IdRange

    folder = DataFolder.open(flags["data"].absolute())
    identity = NodeCredentials(folder.path)
    file = kubeconfig or identity.kubeconfig_file
    if not file.exists():
        raise StartError(
            f"there is no {file}: join this machine first, with the token that `pilothouse token create` "
            "prints on another one: pilothouse join TOKEN; or name a kubeconfig with --kubeconfig"
        )
    host, port = flags["listen"]
    joined = identity if identity.exists and file == identity.kubeconfig_file else None
    name = flags["name"] or (joined.name if joined is not None else "") or default_node_name()
    access = load(file)
    address = flags["node_ip"] or (
        address_towards(access.url) or "127.0.0.1" if is_everywhere(host) else host
    )
    tiers = {each.name: each.folder for each in flags["tiers"]}
    settings = NodeSettings(
        server=access.url,
        other_servers=access.others,
        name=check_node_name(name),
        data=folder.node,
        address=address,
        port=port,
        pod_cidr=flags["pod_cidr"],
        max_pods=flags["max_pods"],
        labels=flags["node_labels"],
        taints=flags["register_with_taints"],
        stop_pods=flags["stop_pods"],
        tiers=tiers,
        tier_sizes={each.name: each.size for each in flags["tiers"] if each.size},
        private=(folder.path,),
        exposed=checked_paths(flags["exposed"], (folder.path, *tiers.values())),
        user_namespace_ids=IdRange(*ids) if (ids := flags["user_namespace_ids"]) else DEFAULT_RANGE,
        allow_host_users=flags["allow_host_users"],
    )
    return NodeOptions(
        access=access,
        settings=settings,
        host=host,
        client_authorities=read_file(flags["client_ca_file"]) if flags["client_ca_file"] else b"",
        joined=joined,
        lifeline=lifeline,
        listen_fd=next(iter(flags.get("listen_fds", ())), None),
        socket_store_fds=flags.get("socket_store_fds", ()),
        updates=update_options(flags),
    )
