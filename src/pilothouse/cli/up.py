"""``pilothouse up``: a control plane and a node in one command."""

from __future__ import annotations

import logging
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pilothouse.app.options import StartError
from pilothouse.app.plane_discovery import UP
from pilothouse.base.terminal_text import escape_control_characters
from pilothouse.cli.node_flags import isolation_flags, max_pods_flag, pod_cidr_flag, tier_flag
from pilothouse.cli.parameters import Duration, Listen, Network, TierFlag
from pilothouse.cli.plane import plane_flag
from pilothouse.cli.server_flags import audit_flags, sealing_flag, server_argv
from pilothouse.cli.store_flags import admission_flag, data_flag, node_address_flag
from pilothouse.cli.update_flags import (
    plane_update_argv,
    plane_update_flags,
    update_server_argv,
    update_server_flags,
)

if TYPE_CHECKING:
    from ipaddress import IPv4Network

    from pilothouse.app.data_folder import DataFolder
    from pilothouse.app.up_state import UpReport


@click.command()
@data_flag("Folder for everything: objects, keys, images, volumes, logs.")
@click.option(
    "--listen",
    type=Listen(),
    default="127.0.0.1:6443",
    show_default=True,
    help="Where the API server listens; port 0 takes a free one.",
)
@click.option(
    "--name", default="", help="Name of the node. Default: the name it had before, or the host name."
)
@pod_cidr_flag
@click.option(
    "--cluster-cidr",
    "cluster_cidrs",
    type=Network(),
    multiple=True,
    help="Range that contains the pod ranges of all nodes. May be repeated. Default: 10.44.0.0/16.",
)
@node_address_flag
@max_pods_flag
@tier_flag
@isolation_flags
@plane_update_flags
@update_server_flags
@click.option(
    "--manager-listen",
    type=Listen(),
    default="127.0.0.1:0",
    show_default=True,
    help="Address of the controller-manager's metrics, without TLS; port 0 takes a free one at each start.",
)
@admission_flag(
    "AdmissionConfiguration of apiserver.config.k8s.io/v1; else namespaces without labels of their own "
    "enforce baseline, and kube-system is exempt."
)
@audit_flags
@sealing_flag
@click.option(
    "--liveness-period",
    type=Duration(),
    default="10s",
    show_default=True,
    help="Interval of the health checks of each process. One that fails three in a row is killed and started "
    "again; 0s disables the checks.",
)
@click.option("--keep", is_flag=True, help="Leave pods running on stop; the next `up` adopts them.")
def up(
    data: Path,
    listen: tuple[str, int],
    name: str,
    pod_cidr: str,
    cluster_cidrs: tuple[IPv4Network, ...],
    node_address_cidrs: tuple[IPv4Network, ...],
    max_pods: int,
    tiers: tuple[TierFlag, ...],
    exposed: tuple[Path, ...],
    user_namespace_ids: tuple[int, int] | None,
    allow_host_users: bool,
    manager_listen: tuple[str, int],
    liveness_period: float,
    admission_control_config_file: Path | None,
    keep: bool,
    **flags: Any,
) -> None:
    """Run a whole control plane: API server, controllers, and this machine as a node.

    Ctrl-C, or `pilothouse down`, stops all of it, pods too. The data stays, and the next `up` continues
    with it.
    """
    import asyncio

    from pilothouse.app.addresses import bracketed
    from pilothouse.app.child_liveness import Liveness
    from pilothouse.app.data_folder import DataFolder
    from pilothouse.app.exposed_paths import checked_paths
    from pilothouse.app.node_names import check_node_name, default_node_name, kept_node_name
    from pilothouse.app.up import UpOptions, run
    from pilothouse.node.volumes.tier_permissions import tier_problem

    logging.basicConfig(level=logging.WARNING, format="%(levelname)s: %(message)s", stream=sys.stderr)
    host, port = listen
    for tier, place, _ in tiers:
        # Not created here: if its disk is not mounted, volumes would end up on another.
        if not place.is_dir():
            what = "is not a folder" if place.exists() else "does not exist; create it, or mount its disk"
            raise click.BadParameter(f"the folder of {tier}, {place}, {what}", param_hint="--tier")
        if not os.access(place, os.W_OK | os.X_OK):
            raise click.BadParameter(
                f"the folder of {tier}, {place}, is not writable for you", param_hint="--tier"
            )
        if problem := tier_problem(place):
            raise click.BadParameter(problem, param_hint="--tier")
    try:
        checked_paths(exposed, (data.absolute(), *(each.folder for each in tiers)))
        kept = kept_node_name(DataFolder(data.absolute()).node_kubeconfig)
        options = UpOptions(
            data=data.absolute(),
            host=host,
            port=port,
            node=check_node_name(name or kept or default_node_name()),
            keep=keep,
            # The node is reached where the server is: from this machine alone, or from others too.
            node_flags=(
                "--listen",
                f"{host}:0",
                *(("--pod-cidr", pod_cidr) if pod_cidr else ()),
                f"--max-pods={max_pods}",
                *(f"--tier={each}" for each in tiers),
                *(f"--expose-path={path}" for path in exposed),
                *(["--user-namespace-ids={}:{}".format(*user_namespace_ids)] if user_namespace_ids else []),
                *(["--allow-host-users"] if allow_host_users else []),
                *plane_update_argv(flags),
            ),
            liveness=Liveness(period=liveness_period),
            server_flags=(
                "--admission-control-config-file",
                str(_admission(admission_control_config_file)),
                *(f"--cluster-cidr={each}" for each in cluster_cidrs),
                *(f"--node-address-cidr={each}" for each in node_address_cidrs),
                *server_argv(flags),
            ),
            manager_flags=("--listen", bracketed(*manager_listen), *update_server_argv(flags)),
            began=_process_start(),
        )
        asyncio.run(run(options, say=_say, welcome=_welcome))
    except StartError as problem:
        raise click.ClickException(str(problem)) from None


def _say(line: str) -> None:
    click.echo(escape_control_characters(line), err=True)


def _admission(file: Path | None) -> Path:
    """The file for the server. One that the user gives is read here as well, to report mistakes at once."""
    from pilothouse.app.up import ADMISSION

    if file is None:
        return ADMISSION
    from pilothouse.app.admission_control import pod_security

    pod_security(file)
    return file.absolute()


def _welcome(report: UpReport, folder: DataFolder) -> None:
    """One screen: where it is, how to use it, what to do next."""
    example = Path("examples/kubernetes/hello.yaml")
    data = "" if _is_default(folder.path) else f" --data {folder.path}"
    program = _program()
    node = (
        f"the node {report.node} is not ready: {escape_control_characters(report.node_problem)}"
        if report.node_problem
        else f"the node {report.node} was ready after {report.ready:.1f} s."
    )
    lines = [
        f"Pilothouse is up at {report.url}; {node}",
        "",
        "In another terminal:",
        f"  export KUBECONFIG={folder.admin_kubeconfig}",
        "  kubectl get nodes",
        *([f"  kubectl apply -f {example.resolve()}"] if example.exists() else []),
        "",
        f"  {program} status{data}",
        f"  {program} token create{data}    # for another machine to join",
        "",
        f"Ctrl-C or `{program} down{data}` stops it"
        f"{', and leaves pods running' if report.keep else ', pods too'}. The data stays in {folder.path}.",
    ]
    click.echo("\n".join(lines))


def _program() -> str:
    """How the user runs this program, which may not be on PATH."""
    import shutil

    called = Path(sys.argv[0]).absolute()
    if called.name == "__main__.py":
        return f"{sys.executable} -P -m pilothouse"
    found = shutil.which("pilothouse")
    return "pilothouse" if found is not None and Path(found).absolute() == called else str(called)


def _is_default(path: Path) -> bool:
    from pilothouse.app.options import default_data

    return path == default_data()


def _process_start() -> float:
    """When this process began, by the kernel's account: before the first line of ours ran."""
    try:
        stat = Path("/proc/self/stat").read_bytes()
        ticks = int(stat[stat.rindex(b")") + 2 :].split()[19])
        uptime = float(Path("/proc/uptime").read_text().split()[0])
    except (OSError, ValueError, IndexError):
        return time.time()
    return time.time() - (uptime - ticks / os.sysconf("SC_CLK_TCK"))


@click.command()
@plane_flag(UP, "Data folder of `pilothouse up`.")
@click.option("--keep", is_flag=True, help="Leave pods running; the next `up` adopts them.")
@click.option(
    "--timeout", type=int, default=180, show_default=True, help="Seconds to wait for all processes to stop."
)
def down(data: Path, keep: bool, timeout: int) -> None:
    """Stop what `pilothouse up` runs, pods too."""
    from pilothouse.app.down_command import NotDown, bring_down

    try:
        said = bring_down(data.absolute(), keep=keep, patience=timeout, say=_say)
    except (StartError, NotDown) as problem:
        raise click.ClickException(str(problem)) from None
    click.echo(said)
