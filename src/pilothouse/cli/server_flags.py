"""Flags that ``apiserver`` and ``up`` have in common: what is recorded of requests, and the keys that secrets are encrypted with."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from pilothouse.app.options import AuditOptions
from pilothouse.cli.flags import several
from pilothouse.cli.parameters import FILE

audit_flags = several(
    click.option(
        "--audit-log-path", type=click.Path(path_type=Path), help="File that requests are recorded in."
    ),
    click.option(
        "--audit-policy-file", type=FILE, help="What is recorded of which request (audit.k8s.io/v1)."
    ),
    click.option(
        "--audit-log-maxsize",
        type=click.IntRange(0),
        default=100,
        show_default=True,
        help="Megabytes after which that file is put aside and begun anew.",
    ),
    click.option(
        "--audit-log-maxbackup",
        type=click.IntRange(0),
        default=10,
        show_default=True,
        help="Files put aside that are kept; 0 is all.",
    ),
    click.option(
        "--audit-log-maxage",
        type=click.IntRange(0),
        default=30,
        show_default=True,
        help="Days that they are kept; 0 is for ever.",
    ),
)
"""``--audit-…``; read with ``audit_options``."""
sealing_flag = click.option(
    "--encryption-key-file",
    type=FILE,
    help="Keys that secrets are encrypted with in the store, one a line: NAME:BASE64. The first one writes.",
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
