"""``pilothouse rule``: commands about AutopilotRules."""

from __future__ import annotations

import click

from pilothouse.cli.rule_backtest import backtest
from pilothouse.cli.rule_explain import explain
from pilothouse.cli.rule_pause import pause, resume
from pilothouse.cli.rule_test import test


@click.group()
def rule() -> None:
    """Test, backtest, explain, pause and resume AutopilotRules."""


rule.add_command(backtest)
rule.add_command(explain)
rule.add_command(pause)
rule.add_command(resume)
rule.add_command(test)
