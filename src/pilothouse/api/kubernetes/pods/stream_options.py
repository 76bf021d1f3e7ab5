"""The query of ``pods/exec`` and ``pods/attach``, and of a node's ``/exec`` and ``/attach``.

    options = StreamOptions.parse("stdin=true&stdout=true&tty=true&command=sh&command=-l", runs=True)
    options.node_query()        # [("command", "sh"), ("command", "-l"), ("input", "1"), …]

Nodes, as kubelet, have other names for the streams than the API. ``parse`` takes either.
"""

from __future__ import annotations

from typing import Final
from urllib.parse import parse_qsl

import msgspec

from pilothouse.meta.errors import bad_request

PROTOCOLS: Final = (
    "v5.channel.k8s.io",
    "v4.channel.k8s.io",
    "v4.base64.channel.k8s.io",
    "channel.k8s.io",
    "base64.channel.k8s.io",
)
"""The supported WebSocket subprotocols, preferred first; ``channel.k8s.io`` if a client names none."""
_TRUE: Final = frozenset({"true", "1", "t"})
_NODE_NAMES: Final = {"stdin": "input", "stdout": "output", "stderr": "error", "tty": "tty"}


class StreamOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Which streams, and for exec what runs."""

    command: tuple[str, ...] = ()
    stdin: bool = False
    stdout: bool = False
    stderr: bool = False
    tty: bool = False
    container: str = ""

    @classmethod
    def parse(cls, query: str, *, runs: bool) -> StreamOptions:
        """``runs``: a command is required. Raises a 400 that says what is missing."""
        command: list[str] = []
        found: dict[str, str] = {}
        for name, value in parse_qsl(query, keep_blank_values=True):
            if name == "command":
                command.append(value)
            else:
                found.setdefault(name, value)
        given = {
            name: any(found.get(each, "").lower() in _TRUE for each in (name, other))
            for name, other in _NODE_NAMES.items()
        }
        # A terminal has one output.
        stderr = given["stderr"] and not given["tty"]
        if not (given["stdin"] or given["stdout"] or stderr):
            raise bad_request("you must specify at least 1 of stdin, stdout, stderr")
        if runs and not command:
            raise bad_request("you must specify at least 1 command to run")
        return cls(
            command=tuple(command),
            stdin=given["stdin"],
            stdout=given["stdout"],
            stderr=stderr,
            tty=given["tty"],
            container=found.get("container", ""),
        )

    def node_query(self) -> list[tuple[str, str]]:
        """The same as a query for a node."""
        flags = [(other, "1") for name, other in _NODE_NAMES.items() if getattr(self, name)]
        return [*(("command", word) for word in self.command), *flags]
