from __future__ import annotations

import asyncio
import os
import threading
from pathlib import Path

import pytest
from tests.kit.payload_server import PayloadFile, PayloadServer

from pilothouse.api.k0s.payloads import Payload
from pilothouse.base.clock import SystemClock
from pilothouse.updates.downloads import Downloads, DownloadSettings

BLOCK = 1 << 20
CONTENT = bytes(range(251)) * 10_000


async def test_a_cancellation_waits_for_the_block_that_is_being_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, goes_on = threading.Event(), threading.Event()
    write = os.write

    def slow_write(file: int, data: bytes | memoryview) -> int:
        if len(data) >= BLOCK:
            begun.set()
            goes_on.wait(10)
        return write(file, data)

    monkeypatch.setattr(os, "write", slow_write)
    with PayloadServer.running() as server:
        server.files["/k0s"] = PayloadFile(CONTENT, etag='"1"')
        payload = Payload(server.url("/k0s"), "v2.0.0", "linux-amd64")
        downloads = Downloads(DownloadSettings(), SystemClock())
        fetching = asyncio.create_task(downloads.fetch(payload, tmp_path / "target"))
        await asyncio.to_thread(begun.wait, 10)
        for _ in range(2):
            fetching.cancel()
            await asyncio.sleep(0)
        asyncio.get_running_loop().call_later(0.1, goes_on.set)
        with pytest.raises(asyncio.CancelledError):
            await fetching
        come = (tmp_path / ".target.part").read_bytes()
        assert len(come) >= BLOCK
        assert CONTENT.startswith(come)
        monkeypatch.undo()
        await downloads.fetch(payload, tmp_path / "target")
        assert (tmp_path / "target").read_bytes() == CONTENT
        assert server.seen[-1].headers["range"] == f"bytes={len(come)}-"
