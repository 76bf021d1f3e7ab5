"""``pilothouse controller-manager``: the flags, by kube-controller-manager's names where it has them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pilothouse.app.options import StartError, default_data
from pilothouse.cli.internal_flags import lifeline_flag
from pilothouse.cli.long_running import log_to_stderr, run_fast, verbose_flag
from pilothouse.cli.parameters import Duration, Listen
from pilothouse.cli.plan_flags import plan_flags
from pilothouse.cli.server_access import kubeconfig_flag, own_access
from pilothouse.cli.update_flags import checked_authorities, update_server_flags

if TYPE_CHECKING:
    from pilothouse.updates.control_node_registration import ControlNodeIdentity, Mode

MORE_THAN_TWO_BEATS = 25.0
"""Seconds: one lost heartbeat must not make a pilot silent."""


@click.command("controller-manager")
@kubeconfig_flag("the pod's own account, KUBECONFIG, or the local server's own")
@click.option(
    "--controllers",
    default="*",
    show_default=True,
    help="Controllers to run, separated by commas: * for all that fit the server, NAME adds one, -NAME "
    "removes one.",
)
@click.option(
    "--leader-elect/--no-leader-elect",
    default=True,
    show_default=True,
    help="Whether to elect a leader among several managers.",
)
@click.option(
    "--leader-elect-lease-duration",
    type=Duration(),
    default="15s",
    show_default=True,
    help="How long the others wait for the leader to renew its lease.",
)
@click.option(
    "--leader-elect-renew-deadline",
    type=Duration(),
    default="10s",
    show_default=True,
    help="How long the leader acts without having renewed its lease.",
)
@click.option(
    "--leader-elect-retry-period",
    type=Duration(),
    default="2s",
    show_default=True,
    help="How often the lease is renewed, or checked.",
)
@click.option(
    "--leader-elect-resource-namespace",
    default="kube-system",
    show_default=True,
    help="Namespace of the lease.",
)
@click.option(
    "--leader-elect-resource-name",
    default="pilothouse-controller-manager",
    show_default=True,
    help="Name of the lease.",
)
@click.option(
    "--listen",
    type=Listen(),
    default="127.0.0.1:0",
    show_default=True,
    help="Address of /healthz, /readyz and /metrics, without TLS; port 0 takes a free one.",
)
@click.option(
    "--pilot-collection-period",
    type=Duration(minimum=1.0),
    default="5m",
    show_default=True,
    help="A Pilot is deleted when it has had no pod for this long, and its StatefulSet wants none.",
)
@click.option(
    "--pilot-silence-period",
    type=Duration(minimum=MORE_THAN_TWO_BEATS),
    default="60s",
    show_default=True,
    help="A Pilot is marked as not ready when its pilot, which reports every 10s, was silent for this long.",
)
@click.option(
    "--control-node",
    "control_node",
    is_flag=False,
    flag_value="",
    metavar="[NAME]",
    help="Register this machine as a ControlNode, a target of update plans; by default under its host name.",
)
@click.option(
    "--control-node-mode",
    type=click.Choice(["controller", "controller+worker"]),
    default="controller",
    show_default=True,
    help="Whether the ControlNode also runs pods.",
)
@plan_flags
@update_server_flags
@click.option(
    "--autopilot-config",
    type=click.Path(path_type=Path, dir_okay=False),
    envvar="CONFIG_FILE",
    help="File that names the providers of metrics for AutopilotRules; it is followed.",
)
@click.option("--recommend-only", is_flag=True, help="AutopilotRules only record what they would do.")
@click.option(
    "--storage-type",
    default="unknown",
    show_default=True,
    help="Store of the API server, such as etcd or sqlite, as it is reported to update servers.",
)
@click.option("--dry-run", is_flag=True, help="Print what would be done and why, and write nothing.")
@click.option(
    "--watch",
    is_flag=True,
    help="With --dry-run: keep running and follow changes.",
)
@lifeline_flag
@verbose_flag("Log more; twice for much more.")
def controller_manager(verbose: int, kubeconfig: Path | None, lifeline: int | None, **flags: Any) -> None:
    """Run the controllers.

    Several may run; one leads, and the others stand by. SIGTERM stops it, and another takes over at once.
    """
    log_to_stderr(verbose)
    if flags["watch"] and not flags["dry_run"]:
        raise click.UsageError("--watch goes with --dry-run")
    if not flags["dry_run"]:
        from pilothouse.app import memory_tuning

        memory_tuning.start_quietly()
    from pilothouse.app.controller_list import ControllerTimeouts, UnknownController
    from pilothouse.app.controller_manager import ManagerOptions, rehearse, run
    from pilothouse.client.access import AccessError
    from pilothouse.client.leader_election import LeaseTiming
    from pilothouse.client.transport import TransportError
    from pilothouse.meta.errors import StatusError

    if lifeline is not None:
        from pilothouse.app.parent_pipe import await_begin

        await_begin(lifeline)
    try:
        options = ManagerOptions(
            access=own_access(kubeconfig, default_data() / "controller-manager.kubeconfig"),
            controllers=tuple(wish.strip() for wish in flags["controllers"].split(",") if wish.strip()),
            elect=flags["leader_elect"],
            lease=(flags["leader_elect_resource_namespace"], flags["leader_elect_resource_name"]),
            timing=LeaseTiming(
                flags["leader_elect_lease_duration"],
                flags["leader_elect_renew_deadline"],
                flags["leader_elect_retry_period"],
            ),
            listen=flags["listen"],
            timeouts=ControllerTimeouts(
                pilot_without_pod=flags["pilot_collection_period"],
                silent_pilot=flags["pilot_silence_period"],
            ),
            control_node=_control_node(flags["control_node"], flags["control_node_mode"]),
            ready_path=flags["ready_path"],
            update_prober=flags["update_prober"],
            update_authorities=checked_authorities(flags),
            storage=flags["storage_type"],
            ready_scheme=flags["ready_scheme"],
            exclude_from_plans=flags["exclude_from_plans"],
            autopilot_config=flags["autopilot_config"],
            recommend_only=flags["recommend_only"],
            lifeline=lifeline,
        )
    except StartError as problem:
        raise click.ClickException(str(problem)) from None
    except ValueError as problem:
        raise click.UsageError(str(problem)) from None
    except AccessError as problem:
        raise click.ClickException(str(problem)) from None
    try:
        if flags["dry_run"]:
            run_fast(lambda: rehearse(options, say=click.echo, watch=flags["watch"]))
        else:
            run_fast(lambda: run(options, announce=click.echo))
    except UnknownController as problem:
        raise click.UsageError(str(problem)) from None
    except (TransportError, StatusError, AccessError) as problem:
        raise click.ClickException(f"{options.access.url}: {problem}") from None


def _control_node(name: str | None, mode: Mode) -> ControlNodeIdentity | None:
    """The machine to register: none without the flag, and by its host name if the flag has no value."""
    from pilothouse.app.node_names import check_node_name, default_node_name
    from pilothouse.updates.control_node_registration import ControlNodeIdentity

    if name is None:
        return None
    return ControlNodeIdentity(check_node_name(name or default_node_name()), mode)
