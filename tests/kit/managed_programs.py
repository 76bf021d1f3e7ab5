"""Programs that an update agent manages: one executable file each, which serves its health and its version.

program("v1.0.0")                              # the content of a file
program("v2.0.0", behaviour="crashes")         # ends at once; or "unhealthy"
program("v2.0.0", reports="v0.9.0")            # says that it is another version

PROGRAM serve [ADDRESS:]PORT      serves /readyz, /version and /pid on a loopback address, until SIGTERM
PROGRAM ask [ADDRESS:]PORT        prints the version of the one that serves there
"""

from __future__ import annotations

import sys
from typing import Literal

Behaviour = Literal["works", "crashes", "unhealthy"]

_TEXT = """#!{python} -SE
import os, socket, sys

REPORTED = {reported!r}
BEHAVIOUR = {behaviour!r}
HOST, _, PORT = sys.argv[2].rpartition(":")
ADDRESS = (HOST or "127.0.0.1", int(PORT))

if sys.argv[1] == "serve":
    if BEHAVIOUR == "crashes":
        sys.exit(3)
    listening = socket.create_server(ADDRESS)
    while True:
        try:
            connection, _ = listening.accept()
            with connection:
                path = connection.recv(4096).split(b" ")[1:2]
                told = {{b"/version": REPORTED, b"/pid": str(os.getpid())}}.get(path[0] if path else b"", "")
                good = told or BEHAVIOUR == "works"
                status = "200 OK" if good else "500 Internal Server Error"
                body = told or ("ok" if good else "not well")
                head = "HTTP/1.1 %s\\r\\nContent-Length: %d\\r\\nConnection: close\\r\\n\\r\\n" % (status, len(body))
                connection.sendall((head + body).encode())
        except OSError:
            pass  # The caller is gone.
elif sys.argv[1] == "ask":
    with socket.create_connection(ADDRESS, 5) as connection:
        connection.sendall(b"GET /version HTTP/1.1\\r\\n\\r\\n")
        answer = b""
        while more := connection.recv(4096):
            answer += more
    print(answer.partition(b"\\r\\n\\r\\n")[2].decode())
"""


def program(version: str, *, behaviour: Behaviour = "works", reports: str = "") -> bytes:
    """The content of an executable file; two versions never have the same."""
    text = _TEXT.format(python=sys.executable, reported=reports or version, behaviour=behaviour)
    return f"{text}\n# {version}\n".encode()
