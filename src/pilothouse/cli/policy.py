"""``pilothouse policy test``: the command of 2019 for StoragePolicies."""

from __future__ import annotations

import os
from datetime import datetime
from pathlib import Path

import click

from pilothouse.cli.parameters import FILE
from pilothouse.cli.rule_test import show_reports, test_flags


@click.group()
def policy() -> None:
    """Test StoragePolicies of 2019; see also `pilothouse rule`."""


@policy.command("test")
@click.argument("file", type=FILE)
@test_flags
@click.pass_context
def test(
    context: click.Context,
    file: Path,
    output: str,
    at: datetime | None,
    without_server: bool,
    kubeconfig: Path | None,
    data: Path | None,
) -> None:
    """Show what the StoragePolicy or AutopilotRule in FILE would do now.

    As `pilothouse rule test`; the configuration file is given as `pilothouse -f FILE policy test`.
    """
    config = context.find_root().params.get("config") or os.environ.get("CONFIG_FILE")
    show_reports(file, Path(config) if config else None, output, at, without_server, kubeconfig, data)
