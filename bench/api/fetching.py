"""One GET, outside of any measurement.

body = fetch(access, "/api/v1/namespaces/default/configmaps", gzip=False)
"""

from __future__ import annotations

import contextlib
import http.client
import time

from bench.api.access import AGENT, TOKEN, Access, unverified


def fetch(access: Access, path: str, *, gzip: bool) -> bytes:
    """The body of a GET as it comes over the wire; a server whose cache is still filling is asked again."""
    headers = {"Authorization": f"Bearer {TOKEN}", "User-Agent": AGENT, "Accept": "application/json"}
    if gzip:
        headers["Accept-Encoding"] = "gzip"
    deadline = time.monotonic() + 30
    while True:
        connection = http.client.HTTPSConnection("127.0.0.1", access.port, context=unverified(), timeout=30)
        with contextlib.closing(connection):
            connection.request("GET", path, headers=headers)
            answer = connection.getresponse()
            body = answer.read()
        if answer.status == 200:
            return body
        if time.monotonic() > deadline:
            raise ValueError(f"GET {path}: {answer.status} {body[:500]!r}")
        time.sleep(0.1)
