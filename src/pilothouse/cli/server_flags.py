"""Flags that ``apiserver`` and ``up`` have in common: what is recorded of requests, and the keys that secrets
are encrypted with."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from pilothouse.app.options import AuditOptions
from pilothouse.cli.flags import several
from pilothouse.cli.parameters import FILE

audit_flags = several(
    click.option(
        "--audit-log-path", type=click.Path(path_type=Path), help="File to which audit records are written."
    ),
    click.option("--audit-policy-file", type=FILE, help="Audit policy (audit.k8s.io/v1)."),
    click.option(
        "--audit-log-maxsize",
        type=click.IntRange(0),
        default=100,
        show_default=True,
        help="Megabytes after which the audit log is rotated.",
    ),
    click.option(
        "--audit-log-maxbackup",
        type=click.IntRange(0),
        default=10,
        show_default=True,
        help="How many rotated files are kept; 0 means all.",
    ),
    click.option(
        "--audit-log-maxage",
        type=click.IntRange(0),
        default=30,
        show_default=True,
        help="Days for which rotated files are kept; 0 means no limit.",
    ),
)
"""``--audit-…``; read with ``audit_options``."""
sealing_flag = click.option(
    "--encryption-key-file",
    type=FILE,
    help="Keys with which Secrets are encrypted in the store, one per line: NAME:BASE64. The first one "
    "encrypts.",
)
"""``--encryption-key-file`` of a server."""


def audit_options(flags: dict[str, Any]) -> AuditOptions:
    """What the flags say."""
    return AuditOptions(
        log_path=flags["audit_log_path"],
        policy_file=flags["audit_policy_file"],
        max_megabytes=flags["audit_log_maxsize"],
        max_backups=flags["audit_log_maxbackup"],
        max_days=flags["audit_log_maxage"],
    )


def server_argv(flags: dict[str, Any]) -> list[str]:
    """The same flags, checked, for an API server that another command starts. Raises ``StartError``."""
    audit = audit_options(flags)
    audit.check()
    argv = []
    if audit.log_path is not None:
        argv = [
            f"--audit-log-path={audit.log_path.absolute()}",
            f"--audit-log-maxsize={audit.max_megabytes}",
            f"--audit-log-maxbackup={audit.max_backups}",
            f"--audit-log-maxage={audit.max_days}",
        ]
        if audit.policy_file is not None:
            argv.append(f"--audit-policy-file={audit.policy_file.absolute()}")
    if (keys := flags["encryption_key_file"]) is not None:
        argv.append(f"--encryption-key-file={keys.absolute()}")
    return argv
