"""``--lifeline``, ``--listen-fd`` and ``--socket-store-fd``: the flags with which ``up`` starts its processes. They are not for users."""

from __future__ import annotations

import click

from pilothouse.cli.flags import Command


def lifeline_flag(command: Command) -> Command:
    """A descriptor whose other end is held by ``up``: see ``app.processes``."""
    return click.option("--lifeline", type=int, default=None, hidden=True)(command)


def listen_fd_flag(command: Command) -> Command:
    """Descriptors of sockets that listen already, in place of ``--listen``: see ``app.inherited_sockets``."""
    return click.option("--listen-fd", "listen_fds", type=int, multiple=True, hidden=True)(command)


def socket_store_flag(command: Command) -> Command:
    """Both ends of a socket pair, one after the other: see ``node.services.socket_store``."""
    return click.option("--socket-store-fd", "socket_store_fds", type=int, multiple=True, hidden=True)(
        command
    )
