"""The options of an API server: the flags of its command, checked and typed."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from ipaddress import IPv4Network
from pathlib import Path

from pilothouse.apiserver.registry.service_ranges import CLUSTER_RANGE, NODE_MASK_SIZE, SERVICE_RANGE
from pilothouse.store.factory import EtcdOptions, StoreKind, StoreOptions


class StartError(Exception):
    """The server can't start; the message says why, in one line, for the user of the command."""


@dataclass(frozen=True, kw_only=True)
class AuditOptions:
    """What to audit, and where. Nothing without a path."""

    log_path: Path | None = None
    policy_file: Path | None = None
    max_megabytes: int = 100
    """The size at which the file is rotated. 0 here and below means no limit."""
    max_backups: int = 10
    max_days: int = 30

    def check(self) -> None:
        if self.log_path is None and self != AuditOptions():
            raise StartError("--audit-* flags go with --audit-log-path")
        if self.log_path is not None and str(self.log_path) == "-":
            raise StartError(
                "--audit-log-path needs a file: the records are read from it again, through the API"
            )


@dataclass(frozen=True, kw_only=True)
class ApiServerOptions:
    data: Path
    host: str = "127.0.0.1"
    port: int = 6443
    store: StoreKind = "sqlite"
    etcd: EtcdOptions = field(default_factory=EtcdOptions)
    service_addresses: IPv4Network = SERVICE_RANGE
    """The range of cluster IPs of Services."""
    cluster_ranges: tuple[IPv4Network, ...] = (CLUSTER_RANGE,)
    """The ranges that nodes' pod CIDRs have to lie in."""
    node_mask_size: int = NODE_MASK_SIZE
    """The shortest prefix of a pod CIDR."""
    node_addresses: tuple[IPv4Network, ...] = ()
    """Addresses that nodes may have, besides the one that each calls from."""
    anonymous_auth: bool = True
    """Whether a request without credentials is anonymous, or gets a 401."""
    token_auth_file: Path | None = None
    client_ca_file: Path | None = None
    tls_cert_file: Path | None = None
    tls_private_key_file: Path | None = None
    signing_key_file: Path | None = None
    """The key that signs service-account tokens."""
    cluster_signing_cert_file: Path | None = None
    cluster_signing_key_file: Path | None = None
    """The authority that signs certificates, if not the server's own."""
    encryption_key_file: Path | None = None
    """Encrypts secrets in the store."""
    audit: AuditOptions = field(default_factory=AuditOptions)
    admission_control_config_file: Path | None = None
    max_requests_in_flight: int = 400
    max_mutating_requests_in_flight: int = 200
    client_timeout: float = 30.0
    """Seconds for a client to send a request's head, or to receive each megabyte."""
    compaction_interval: float = 300.0
    """Seconds of history that a watcher or a paging client can count on."""
    local_node: str = ""
    """The node on this machine, which gets a kubeconfig in the data folder; none if empty."""
    local_node_absent: bool = False
    """That node is not running and is started after the server: its reported status is outdated."""
    lifeline: int | None = None
    """The descriptor of the lifeline to the supervisor: see ``processes``."""
    listen_fds: tuple[int, ...] = ()
    """Listening sockets inherited from the supervisor; empty to open them."""
    shutdown_delay: float = 0.0
    """Seconds that the server goes on serving, no longer ready, before it stops."""

    def check(self) -> None:
        """Raises ``StartError`` for flags that contradict each other."""
        try:
            StoreOptions(kind=self.store, etcd=self.etcd).check()
        except ValueError as problem:
            raise StartError(str(problem)) from None
        self.audit.check()
        self._check_cluster_ranges()
        if (self.tls_cert_file is None) != (self.tls_private_key_file is None):
            raise StartError("--tls-cert-file and --tls-private-key-file go together")
        if (self.cluster_signing_cert_file is None) != (self.cluster_signing_key_file is None):
            raise StartError("--cluster-signing-cert-file and --cluster-signing-key-file go together")
        if self.local_node_absent and not self.local_node:
            raise StartError("--local-node-absent goes with --local-node")
        if self.compaction_interval < 1:
            raise StartError("--compaction-interval must be at least 1s")

    def _check_cluster_ranges(self) -> None:
        # Imported here: commands that only read options stay small.
        from pilothouse.api.kubernetes.node_claims import PRIVATE, contains

        for each in self.cluster_ranges:
            if not any(contains(private, each) for private in PRIVATE):
                raise StartError(
                    f"--cluster-cidr {each} is not a private range; pods have addresses of "
                    f"{', '.join(map(str, PRIVATE))}"
                )
            if each.overlaps(self.service_addresses):
                raise StartError(
                    f"--cluster-cidr {each} overlaps --service-cluster-ip-range {self.service_addresses}"
                )


def default_data() -> Path:
    """The default data folder: the system's for root, the user's own for others."""
    if os.geteuid() == 0:
        return Path("/var/lib/pilothouse")
    home = os.environ.get("XDG_DATA_HOME")
    base = Path(home) if home and Path(home).is_absolute() else Path.home() / ".local" / "share"
    return base / "pilothouse"


def data_path_problem(path: Path) -> str:
    """Why there can be no data folder at a path; empty if there is one, or can be."""
    try:
        if not path.exists() or path.is_dir():
            return ""
    except OSError as problem:
        return f"the data folder {path} can't be used: {explain(problem)}"
    return (
        f"the data folder {path} is not a folder but a file; give --data a folder such as "
        f"{default_data()}, or a path that does not exist yet"
    )


def read_text(file: Path) -> str:
    """A text file that a flag names. Raises ``StartError``."""
    try:
        return read_file(file).decode()
    except UnicodeDecodeError as problem:
        raise StartError(f"{file} is not UTF-8: {problem}") from None


def read_file(file: Path) -> bytes:
    """A file that a flag names. Raises ``StartError`` if it can't be read."""
    try:
        return file.read_bytes()
    except OSError as problem:
        raise StartError(f"{file} can't be read: {explain(problem)}") from None


def explain(problem: OSError) -> str:
    """The reason of an error, without its number."""
    return problem.strerror or getattr(problem, "reason", "") or str(problem)
