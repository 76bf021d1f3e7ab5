"""The HTTP requests of probes and hooks.

well, output = await ask({"path": "/healthz", "scheme": "HTTPS"}, "127.8.1.2", 8443)

An answer from 200 to 399 is well. Certificates are not looked at, redirects are followed within the same host alone, and no
connection is kept: each request asks the container anew.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Final

import aiohttp
from yarl import URL

_MOST_BODY: Final = 10 * 1024
_MOST_REDIRECTS: Final = 10


def not_connected(host: str, port: int, problem: OSError) -> str:
    """In the words that kubelet has for it. What asyncio says repeats the address and leaves the reason out."""
    why = os.strerror(problem.errno).lower() if problem.errno else str(problem)
    return f"dial tcp {host}:{port}: connect: {why}"


async def ask(get: Mapping[str, Any], host: str, port: int) -> tuple[bool, str]:
    """Whether an ``httpGet`` is answered well, and what was said."""
    scheme = str(get.get("scheme") or "HTTP").lower()
    path = str(get.get("path") or "/")
    where = f"[{host}]" if ":" in host else host
    url = URL(f"{scheme}://{where}:{port}{path if path.startswith('/') else '/' + path}", encoded=True)
    headers = {"User-Agent": "kube-probe/1.32", "Accept": "*/*"}
    headers |= {each["name"]: each.get("value") or "" for each in get.get("httpHeaders") or ()}
    headers = {
        name: value for name, value in headers.items() if value or name not in ("User-Agent", "Accept")
    }
    try:
        async with aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(ssl=False, force_close=True), cookie_jar=aiohttp.DummyCookieJar()
        ) as session:
            for _ in range(_MOST_REDIRECTS):
                async with session.get(url, headers=headers, allow_redirects=False) as answer:
                    body = (await answer.content.read(_MOST_BODY)).decode(errors="replace")
                    onward = answer.headers.get("Location") if 300 <= answer.status < 400 else None
                    if onward is None or url.join(URL(onward)).host != url.host:
                        well = 200 <= answer.status < 400
                        return well, body if well else f"HTTP probe failed with statuscode: {answer.status}"
                    url = url.join(URL(onward))
            return False, f"stopped after {_MOST_REDIRECTS} redirects"
    except aiohttp.ClientConnectorError as problem:
        return False, f'Get "{url}": {not_connected(host, port, problem.os_error)}'
    except (aiohttp.ClientError, OSError) as problem:
        return False, f'Get "{url}": {problem}'
