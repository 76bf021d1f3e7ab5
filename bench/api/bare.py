"""The floor for reads: an aiohttp server that does nothing but send ready bytes over TLS.

    python -m bench.api.bare ANSWERS CERTIFICATE KEY    # prints its port

ANSWERS is a folder with a file `index.json`: a list of {"path", "gzip", "file"}. Every request is answered with the file
of its path and of whether it accepts gzip. Same event loop, same TLS version and same answer headers as ours.
"""

from __future__ import annotations

import asyncio
import json
import ssl
import sys
from pathlib import Path

import uvloop
from aiohttp import web

Answers = dict[tuple[str, bool], bytes]


async def serve(answers: Answers, certificate: str, key: str) -> None:
    """Listen on a free port until cancelled."""

    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        gzipped = "Accept-Encoding" in request.headers
        headers = {"Content-Type": "application/json", "Cache-Control": "no-cache, private"}
        if gzipped:
            headers["Content-Encoding"] = "gzip"
        return web.Response(body=answers[request.raw_path, gzipped], headers=headers)

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.load_cert_chain(certificate, key)
    loop = asyncio.get_running_loop()
    listener = await loop.create_server(web.Server(handle, access_log=None), "127.0.0.1", 0, ssl=context)
    print(listener.sockets[0].getsockname()[1], flush=True)
    await listener.serve_forever()


def load(folder: Path) -> Answers:
    entries = json.loads((folder / "index.json").read_bytes())
    return {(entry["path"], entry["gzip"]): (folder / entry["file"]).read_bytes() for entry in entries}


if __name__ == "__main__":
    uvloop.run(serve(load(Path(sys.argv[1])), sys.argv[2], sys.argv[3]))
