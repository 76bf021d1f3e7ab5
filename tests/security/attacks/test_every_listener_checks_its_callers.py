"""Every place in the source that opens a door of the machine is listed here, with what keeps strangers out; a new one fails."""

from __future__ import annotations

import re
from pathlib import Path

import pilothouse

SOURCE = Path(pilothouse.__file__).parent
DOORS = re.compile(
    r"AF_UNIX|start_unix_server|open_unix_connection|create_unix_|\bstart_server\(|\bcreate_server\(|TCPSite\(|SockSite\("
    r"|create_datagram_endpoint|SOCK_DGRAM|\.listen\((?:_BACKLOG|\d*)\)"
)
KNOWN = {
    "apiserver/server/https_server.py": "TLS; certificates and tokens, then authorization",
    "app/addresses.py": "asks the kernel for its own address; nothing is sent or heard",
    "app/inherited_sockets.py": "held by `up` for the API server and the node, which accept there with TLS as below",
    "app/status_server.py": "plain HTTP: health and counts, reading only, 64 connections",
    "node/addresses/host_ports.py": "sees whether a port is free, and closes it again",
    "node/addresses/pod_ranges.py": "marks: nothing is read from them, and nothing depends on having one",
    "node/server/http_server.py": "TLS; certificates and tokens, then a SubjectAccessReview",
    "node/services/service_proxy.py": "services of pods: what is connected to is the pod, which does its own checks",
    "pilot/probe_server.py": "plain HTTP: probes and figures of one database, reading only, 64 connections",
    "updates/update_server.py": "files of one folder, reading only; a token where one is set; TLS where certificates are given",
    "supervise/attach.py": "a client: the shim's user is checked (SO_PEERCRED)",
    "supervise/shim/exec_requests.py": "in the container's folder (0700); the peer's user is checked (SO_PEERCRED)",
    "supervise/shim/attach_clients.py": "in the container's folder (0700); the peer's user is checked (SO_PEERCRED)",
}
EXAMPLES = {"node/services/forwarding.py", "sim/loop.py"}
"""What has the words in a docstring, or to say that there is no such thing."""


def test_there_is_no_door_that_is_not_accounted_for() -> None:
    found = {str(file.relative_to(SOURCE)) for file in SOURCE.rglob("*.py") if DOORS.search(file.read_text())}
    assert found - EXAMPLES == set(KNOWN)


def test_no_socket_has_an_abstract_name() -> None:
    named = re.compile(r"""(?:bind|connect|open_unix_connection|start_unix_server)\(\s*f?b?["']\\0""")
    assert [str(file) for file in SOURCE.rglob("*.py") if named.search(file.read_text())] == []
