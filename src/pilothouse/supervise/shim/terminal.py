"""A terminal for a program, opened inside its view, so that it has a name there; its master end goes to the
monitor.

    ours, theirs = terminal_channel()    # before the fork
    open_terminal(theirs, user)          # in the child, inside its view: the terminal is its standard streams
    master = receive_terminal(ours)      # outside
"""

from __future__ import annotations

import _socket
import fcntl
import os
import sys
import termios

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pilothouse.supervise.launch_spec import ProcessUser


def terminal_channel() -> tuple[int, int]:
    """A socket pair, through which a terminal can be passed."""
    ours, theirs = _socket.socketpair()
    return ours.detach(), theirs.detach()


def open_terminal(channel: int, user: ProcessUser | None) -> None:
    """Open a terminal as 0, 1 and 2, owned by `user`. The caller is the leader of a session."""
    master, slave = os.openpty()
    if user is not None:
        os.fchown(slave, user.uid, user.gid)
    rights = (_socket.SOL_SOCKET, _socket.SCM_RIGHTS, master.to_bytes(4, sys.byteorder))
    sending = _socket.socket(fileno=os.dup(channel))
    sending.sendmsg([b"+"], [rights])
    sending.close()
    os.close(master)
    fcntl.ioctl(slave, termios.TIOCSCTTY, 0)
    for number in range(3):
        os.dup2(slave, number)
    os.close(slave)


def receive_terminal(channel: int) -> int:
    """What `open_terminal` sent; closes this end. Raises OSError if nothing was."""
    receiving = _socket.socket(fileno=channel)
    try:
        _, ancillary, _, _ = receiving.recvmsg(1, _socket.CMSG_SPACE(4), _socket.MSG_CMSG_CLOEXEC)
        if not ancillary:
            raise OSError("no terminal was opened")
        return int.from_bytes(ancillary[0][2][:4], sys.byteorder)
    finally:
        receiving.close()
