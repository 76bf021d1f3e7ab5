"""``pilothouse apiserver``: the flags of the API server, by kube-apiserver's names where it has them."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import click

from pilothouse.apiserver.registry.service_ranges import CLUSTER_RANGE, NODE_MASK_SIZE, SERVICE_RANGE
from pilothouse.app.options import (
    ApiServerOptions,
    StartError,
)
from pilothouse.cli.internal_flags import lifeline_flag, listen_fd_flag
from pilothouse.cli.long_running import log_to_stderr, run_fast, verbose_flag
from pilothouse.cli.parameters import FILE, Duration, Listen, Network
from pilothouse.cli.server_flags import audit_flags, audit_options, sealing_flag
from pilothouse.cli.store_flags import (
    admission_flag,
    data_flag,
    etcd_flags,
    etcd_options,
    node_address_flag,
    store_flag,
)


@click.command()
@data_flag("Folder for keys, certificates, the admin kubeconfig and, with SQLite, the objects.")
@click.option(
    "--listen",
    type=Listen(),
    default="127.0.0.1:6443",
    show_default=True,
    help="Address to listen on; port 0 takes a free one.",
)
@store_flag("Where objects are stored.")
@etcd_flags
@click.option(
    "--service-cluster-ip-range",
    type=Network(),
    default=str(SERVICE_RANGE),
    show_default=True,
    help="Range of service addresses.",
)
@click.option(
    "--cluster-cidr",
    "cluster_cidrs",
    type=Network(),
    multiple=True,
    default=[str(CLUSTER_RANGE)],
    show_default=True,
    help="Range that contains the pod ranges of all nodes. May be repeated.",
)
@click.option(
    "--node-cidr-mask-size",
    type=click.IntRange(16, 30),
    default=NODE_MASK_SIZE,
    show_default=True,
    help="Least prefix length of the range of one node's pods.",
)
@node_address_flag
@click.option(
    "--anonymous-auth",
    type=bool,
    default=True,
    show_default=True,
    metavar="true|false",
    help="Whether requests without credentials are accepted, as system:anonymous; else they get a 401.",
)
@click.option(
    "--token-auth-file", type=FILE, help='Bearer tokens, one line each: token,user,uid,"group,group".'
)
@click.option("--client-ca-file", type=FILE, help="Further CA whose client certificates are accepted.")
@click.option("--tls-cert-file", type=FILE, help="Serving certificate. Default: one of the server's own CA.")
@click.option("--tls-private-key-file", type=FILE, help="Key of the serving certificate.")
@audit_flags
@admission_flag("AdmissionConfiguration of apiserver.config.k8s.io/v1, for Pod Security.")
@click.option(
    "--service-account-signing-key-file",
    type=FILE,
    help="Key (ECDSA P-256, PEM) that signs service account tokens. Default: one that the server generates.",
)
@click.option(
    "--cluster-signing-cert-file",
    type=FILE,
    help="CA that signs certificates; further ones in the file are trusted, too. Default: one that the "
    "server generates.",
)
@click.option("--cluster-signing-key-file", type=FILE, help="Key of that CA.")
@sealing_flag
@click.option(
    "--max-requests-inflight",
    type=click.IntRange(0),
    default=400,
    show_default=True,
    help="Concurrent reads beyond which requests get a 429; 0 means no limit.",
)
@click.option(
    "--max-mutating-requests-inflight",
    type=click.IntRange(0),
    default=200,
    show_default=True,
    help="Concurrent writes beyond which requests get a 429; 0 means no limit.",
)
@click.option(
    "--client-timeout",
    type=Duration(),
    default="30s",
    show_default=True,
    help="How long a client may take to send a request's headers, or to receive each megabyte of a response.",
)
@click.option(
    "--compaction-interval",
    type=Duration(),
    default="5m",
    show_default=True,
    help="How long history is kept at least, for watches and paged lists.",
)
@click.option(
    "--shutdown-delay-duration",
    type=Duration(),
    default="0s",
    show_default=True,
    help="How long to serve on, not ready, after being asked to stop.",
)
@click.option(
    "--local-node",
    default="",
    metavar="NAME",
    help="Name of the node on this machine: node.kubeconfig is then written for it, beside the "
    "administrator's.",
)
@click.option(
    "--local-node-absent",
    is_flag=True,
    help="The local node does not run yet: neither it nor its pods are ready until it has reported.",
)
@lifeline_flag
@listen_fd_flag
@verbose_flag("Log more; twice for every request.")
def apiserver(verbose: int, **flags: Any) -> None:
    """Run the API server.

    When it is ready it prints one line, with its address and the kubeconfig to use. SIGTERM stops it
    gracefully.
    """
    log_to_stderr(verbose)
    options = _options(flags)
    try:
        options.check()
    except StartError as problem:
        raise click.UsageError(str(problem)) from None
    _run(options)


def _options(flags: dict[str, Any]) -> ApiServerOptions:
    host, port = flags["listen"]
    return ApiServerOptions(
        data=flags["data"].absolute(),
        host=host,
        port=port,
        store=flags["store"],
        etcd=etcd_options(flags),
        service_addresses=flags["service_cluster_ip_range"],
        cluster_ranges=flags["cluster_cidrs"],
        node_mask_size=flags["node_cidr_mask_size"],
        node_addresses=flags["node_address_cidrs"],
        anonymous_auth=flags["anonymous_auth"],
        token_auth_file=flags["token_auth_file"],
        client_ca_file=flags["client_ca_file"],
        tls_cert_file=flags["tls_cert_file"],
        tls_private_key_file=flags["tls_private_key_file"],
        signing_key_file=flags["service_account_signing_key_file"],
        cluster_signing_cert_file=flags["cluster_signing_cert_file"],
        cluster_signing_key_file=flags["cluster_signing_key_file"],
        encryption_key_file=flags["encryption_key_file"],
        audit=audit_options(flags),
        admission_control_config_file=flags["admission_control_config_file"],
        max_requests_in_flight=flags["max_requests_inflight"],
        max_mutating_requests_in_flight=flags["max_mutating_requests_inflight"],
        client_timeout=flags["client_timeout"],
        compaction_interval=flags["compaction_interval"],
        shutdown_delay=flags["shutdown_delay_duration"],
        local_node=flags["local_node"],
        local_node_absent=flags["local_node_absent"],
        lifeline=flags["lifeline"],
        listen_fds=flags["listen_fds"],
    )


def _run(options: ApiServerOptions) -> None:
    from pilothouse.app import memory_tuning

    memory_tuning.start_quietly()
    from pilothouse.app.apiserver import run
    from pilothouse.app.open_files import raise_open_files

    raise_open_files()
    with _registered(options):
        run_fast(lambda: run(options, announce=lambda line: click.echo(line)))


def _registered(options: ApiServerOptions) -> AbstractContextManager[None]:
    """Other commands find this server, unless it is part of an ``up``, which they find instead."""
    from pilothouse.app.plane_registry import registered

    if options.lifeline is not None:
        return nullcontext()
    return registered(options.data, "apiserver", lambda line: click.echo(line, err=True))
