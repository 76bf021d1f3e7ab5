"""Flags that go together.

etcd_flags = several(click.option("--etcd-servers"), click.option("--etcd-cafile"))

@etcd_flags
def backup(etcd_servers: str, etcd_cafile: str): ...
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

Command = TypeVar("Command", bound=Callable[..., Any])
"""A command, whose type stays the same."""


def several(*flags: Callable[[Any], Any]) -> Callable[[Command], Command]:
    """All of them as one, in this order."""

    def give(command: Command) -> Command:
        for flag in reversed(flags):
            command = flag(command)
        return command

    return give
