"""A driver of Elasticsearch beside a node that is played: answers instead of a database.

async with beside(tmp_path, "es-demo-data-0", answer) as driver:     # answer takes a request and gives a response
    await driver.observe(desired)
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from aiohttp import web
from tests.kit.real_elasticsearch import addresses

from pilothouse.pilot.driver import InstanceEnvironment
from pilothouse.pilot.drivers.elasticsearch.elasticsearch_driver import Elasticsearch

Answer = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


@asynccontextmanager
async def beside(
    folder: Path, name: str, answer: Answer, *, version: str = "8.17.0"
) -> AsyncIterator[Elasticsearch]:
    """The driver of a node of this name and version, which finds in the folder all that it looks for before it asks."""
    (folder / "bin").mkdir()
    (folder / "bin" / "elasticsearch").touch(0o755)
    (folder / "lib").mkdir()
    (folder / "lib" / f"elasticsearch-{version}.jar").touch()
    [address] = addresses(1)
    runner = web.ServerRunner(web.Server(answer, access_log=None))
    await runner.setup()
    try:
        await web.TCPSite(runner, address, 9200).start()
        yield Elasticsearch(InstanceEnvironment(name, "default", address, folder, {"ES_HOME": str(folder)}))
    finally:
        await runner.cleanup()
