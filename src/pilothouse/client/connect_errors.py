"""Connections that can't be made: how long to try, and what to say.

unreachable("https://10.0.0.1:6443", ConnectionRefusedError(111, "…"))
# "https://10.0.0.1:6443 can't be reached: Connection refused"
"""

from __future__ import annotations

import os
import re
import socket
import ssl
from typing import Final

CONNECT_SECONDS: Final = 10.0
"""For a connection to a server, with its TLS handshake."""
_NUMBER: Final = re.compile(r"\[Errno (\d+)\]")


def unreachable(url: str, problem: Exception) -> str:
    """One line for an error that came up while connecting.

    >>> unreachable("https://db", ConnectionRefusedError(111, "Connect call failed ('10.0.0.1', 443)"))
    "https://db can't be reached: Connection refused"
    """
    if isinstance(problem, TimeoutError) and not problem.errno:
        return f"{url} can't be reached within {CONNECT_SECONDS:g} s"
    return f"{url} can't be reached: {_reason(problem)}"


def _reason(problem: Exception) -> str:
    if isinstance(problem, ssl.SSLError) or not isinstance(problem, OSError):
        return str(problem) or type(problem).__name__
    if isinstance(problem, socket.gaierror):
        return problem.strerror or str(problem)
    # asyncio puts the address in place of the kernel's text, and joins the errors of several addresses.
    numbers = {problem.errno} if problem.errno else set(map(int, _NUMBER.findall(str(problem))))
    return os.strerror(numbers.pop()) if len(numbers) == 1 else str(problem)
