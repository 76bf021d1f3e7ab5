"""Composes an update server: a folder of channels, served until the process is asked to stop.

await run(UpdateServerOptions(folder=Path("channels")), announce=print)
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from pilothouse.app.addresses import plain_url
from pilothouse.app.graceful_shutdown import ShutdownRequest
from pilothouse.app.options import StartError, explain
from pilothouse.base.clock import SystemClock
from pilothouse.updates.update_server import UpdateServer, serving_updates


@dataclass(frozen=True)
class UpdateServerOptions:
    folder: Path
    listen: tuple[str, int] = ("127.0.0.1", 8080)
    token_file: Path | None = None
    """The token that every request has to carry."""
    certificate: Path | None = None
    key: Path | None = None


async def run(options: UpdateServerOptions, *, announce: Callable[[str], None]) -> None:
    """Serve until SIGTERM or SIGINT. Raises ``StartError``."""
    stop = ShutdownRequest.on_signals(asyncio.get_running_loop())
    if not options.folder.is_dir():
        raise StartError(f"{options.folder} is not a folder; `pilothouse updates publish` makes one")
    server = UpdateServer(options.folder, SystemClock(), token=_token(options.token_file))
    tls = _tls(options)
    host, port = options.listen
    try:
        async with serving_updates(server, host, port, tls) as bound:
            url = plain_url(host, bound)
            announce(f"{options.folder} is served at {url.replace('http://', 'https://') if tls else url}")
            await stop.asked.wait()
    except OSError as problem:
        raise StartError(f"can't listen on {host}:{port}: {explain(problem)}") from None


def _token(path: Path | None) -> str:
    if path is None:
        return ""
    try:
        token = path.read_text("ascii").strip()
    except (OSError, UnicodeDecodeError) as problem:
        raise StartError(f"{path} can't be read as a token: {problem}") from None
    if not token or " " in token or not token.isprintable():
        raise StartError(f"{path} has no token: expected one word")
    return token


def _tls(options: UpdateServerOptions) -> ssl.SSLContext | None:
    if options.certificate is None or options.key is None:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(options.certificate, options.key)
    except OSError as problem:
        raise StartError(f"{options.certificate} and {options.key}: {explain(problem)}") from None
    return context
