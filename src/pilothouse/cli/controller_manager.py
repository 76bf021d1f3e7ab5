"""``pilothouse controller-manager``: the flags, by kube-controller-manager's names where it has them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from pilothouse.app.options import default_data
from pilothouse.cli.internal_flags import lifeline_flag
from pilothouse.cli.long_running import log_to_stderr, run_fast, verbose_flag
from pilothouse.cli.parameters import Duration, Listen
from pilothouse.cli.server_access import kubeconfig_flag, own_access

MORE_THAN_TWO_BEATS = 25.0
"""Seconds: one sign of life that is lost must not make a pilot silent."""


@click.command("controller-manager")
@kubeconfig_flag("the pod's own account, KUBECONFIG, or the local server's own")
@click.option(
    "--controllers",
    default="*",
    show_default=True,
    help="Which controllers run: * is all that fit the server, name is one more, -name one less.",
)
@click.option(
    "--leader-elect/--no-leader-elect",
    default=True,
    show_default=True,
    help="Whether several may run, of which one decides.",
)
@click.option(
    "--leader-elect-lease-duration",
    type=Duration(),
    default="15s",
    show_default=True,
    help="How long those who stand by wait for a sign of the leader.",
)
@click.option(
    "--leader-elect-renew-deadline",
    type=Duration(),
    default="10s",
    show_default=True,
    help="How long the leader decides without having renewed its lease.",
)
@click.option(
    "--leader-elect-retry-period",
    type=Duration(),
    default="2s",
    show_default=True,
    help="How often the lease is renewed, or looked at.",
)
@click.option(
    "--leader-elect-resource-namespace",
    default="kube-system",
    show_default=True,
    help="Where the lease is.",
)
@click.option(
    "--leader-elect-resource-name",
    default="pilothouse-controller-manager",
    show_default=True,
    help="What the lease is called.",
)
@click.option(
    "--listen",
    type=Listen(),
    default="127.0.0.1:0",
    show_default=True,
    help="Where /healthz, /readyz and /metrics can be read, without TLS; port 0 is a free one.",
)
@click.option(
    "--pilot-collection-period",
    type=Duration(minimum=1.0),
    default="5m",
    show_default=True,
    help="A Pilot goes when there has been no pod of its name for so long, and no set wants one.",
)
@click.option(
    "--pilot-silence-period",
    type=Duration(minimum=MORE_THAN_TWO_BEATS),
    default="60s",
    show_default=True,
    help="A pilot that was not heard of for so long is no longer counted on; they report every 10s.",
)
@click.option("--dry-run", is_flag=True, help="Decide, print what would be done and why, and write nothing.")
@click.option(
    "--watch",
    is_flag=True,
    help="With --dry-run: go on with what changes, instead of ending when all is told.",
)
@lifeline_flag
@verbose_flag("Log more; twice for much more.")
def controller_manager(verbose: int, kubeconfig: Path | None, lifeline: int | None, **flags: Any) -> None:
    """Run the controllers: what is asked for in the API is brought about.

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
            patience=ControllerTimeouts(
                pilot_without_pod=flags["pilot_collection_period"],
                silent_pilot=flags["pilot_silence_period"],
            ),
            lifeline=lifeline,
        )
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
