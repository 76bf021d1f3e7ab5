"""Webhooks of ``notify`` get approvals that are asked for, failures and declines, whatever another one does."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import yaml
from aiohttp import web
from tests.kit.certificates import Authority
from tests.kit.scheduling_objects import NOW
from tests.kit.waiting import eventually

from pilothouse.api.objects import Object, Tree
from pilothouse.base.clock import ManualClock
from pilothouse.base.rfc3339 import format_time
from pilothouse.rules.webhooks import WebhookObserver

FAILURES = 70
AUTOPILOT = "autopilot.libopenstorage.org/v1alpha1"
Got = list[tuple[str, str]]
"""The kind and the idempotency key of each post."""


class Listed:
    """As much of an informer as the observer uses."""

    def __init__(self, *trees: Tree) -> None:
        self.cache = self
        self._objects = [Object.of(tree) for tree in trees]
        self._told: list[Callable[[None], None]] = []

    def list(self) -> list[Object]:
        return self._objects

    def subscribe(self, changed: Callable[[None], None]) -> Callable[[], None]:
        changed(None)
        self._told.append(changed)
        return lambda: self._told.remove(changed)

    def add(self, tree: Tree) -> None:
        self._objects.append(Object.of(tree))
        for changed in self._told:
            changed(None)


def record(kind: str, name: str, **fields: Tree) -> Tree:
    meta = {"name": name, "namespace": "shop", "uid": name, "creationTimestamp": format_time(NOW)}
    return {"apiVersion": AUTOPILOT, "kind": kind, "metadata": meta, **fields}


def ended(name: str, phase: str) -> Tree:
    return record("ApplicationAction", name, status={"phase": phase, "completionTime": format_time(NOW)})


def asked(name: str) -> Tree:
    return record("ActionApproval", name, spec={"approvalState": "pending"})


def declined(name: str, *, action: str = "", until: bool = True) -> Tree:
    status = {"state": "ActionsDeclined", "since": format_time(NOW), "action": action}
    ends = {"until": format_time(NOW + 60)} if until else {}
    return record("AutopilotRuleObject", name, status={**status, **ends})


@asynccontextmanager
async def pager(folder: Path) -> AsyncIterator[tuple[Tree, Got]]:
    """A webhook with TLS by a CA of its own, and what it has got."""
    got: Got = []

    async def receive(request: web.Request) -> web.Response:
        about = msgspec.json.decode(await request.read())
        got.append((about["kind"], request.headers["Idempotency-Key"]))
        return web.Response(status=202)

    authority = Authority.create(folder / "pki")
    pair = authority.server()
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(pair.cert, pair.key)
    app = web.Application()
    app.router.add_post("/page", receive)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls).start()
    url = f"https://127.0.0.1:{runner.addresses[0][1]}/page"
    try:
        yield {"name": "pager", "url": url, "ca": str(authority.cert)}, got
    finally:
        await runner.cleanup()


@asynccontextmanager
async def silent() -> AsyncIterator[tuple[Tree, list[bytes]]]:
    """A webhook that reads a request and never answers, and the first lines of what it was sent."""
    got: list[bytes] = []
    over = asyncio.Event()

    async def hold(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        got.append(await reader.readline())
        await over.wait()
        writer.close()

    server = await asyncio.start_server(hold, "127.0.0.1", 0)
    try:
        yield {"name": "chat", "url": f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"}, got
    finally:
        over.set()
        server.close()


@asynccontextmanager
async def notifying(file: Path, *hooks: Tree, **informers: Listed) -> AsyncIterator[WebhookObserver]:
    config = {"webhooks": list(hooks), "notify": [each["name"] for each in hooks]}
    await asyncio.to_thread(file.write_text, yaml.safe_dump(config))
    actions, approvals, objects = (
        informers.get(each) or Listed() for each in ("actions", "approvals", "rule_objects")
    )
    observer: Any = WebhookObserver(
        None,  # type: ignore[arg-type]
        actions,  # type: ignore[arg-type]
        approvals,  # type: ignore[arg-type]
        objects,  # type: ignore[arg-type]
        ManualClock(NOW),
        file,
    )
    running = asyncio.ensure_future(observer.run(lambda: None))
    try:
        yield observer
    finally:
        running.cancel()
        await asyncio.wait([running])


async def got_all(got: Got, count: int) -> None:
    async def look() -> bool:
        return len(got) >= count

    await eventually(look, seconds=30)


async def test_a_webhook_that_never_answers_delays_no_notice_to_another(tmp_path: Path) -> None:
    actions = Listed(*(ended(f"grow-{number}", "Failed") for number in range(FAILURES)))
    approvals = Listed()
    file = tmp_path / "config.yaml"
    async with (
        pager(tmp_path) as (pages, got),
        silent() as (chat, held),
        notifying(file, chat, pages, actions=actions, approvals=approvals),
    ):
        await got_all(got, FAILURES)
        approvals.add(asked("grow-more"))
        await got_all(got, FAILURES + 1)

        async def is_held() -> bool:
            return bool(held)

        await eventually(is_held)
    assert sorted(got[:FAILURES]) == sorted(
        ("ApplicationAction", f"grow-{number}-Failed") for number in range(FAILURES)
    )
    assert got[FAILURES:] == [("ActionApproval", "grow-more-pending")]


async def test_what_a_rule_declines_itself_is_told_once(tmp_path: Path) -> None:
    rule_objects = Listed(
        declined("data-grow"),
        declined("wal-grow", action="grow-7"),
        declined("logs-grow", action="grow-7", until=False),
    )
    actions = Listed(ended("grow-7", "Declined"), ended("grow-8", "Succeeded"))
    file = tmp_path / "config.yaml"
    async with (
        pager(tmp_path) as (pages, got),
        notifying(file, pages, actions=actions, rule_objects=rule_objects),
    ):
        await got_all(got, 3)
        # One that was not there before, after which those from before are not told again.
        actions.add(ended("grow-9", "Failed"))
        await got_all(got, 4)
    since = format_time(NOW)
    assert sorted(got) == [
        ("ApplicationAction", "grow-7-Declined"),
        ("ApplicationAction", "grow-9-Failed"),
        ("AutopilotRuleObject", f"data-grow-ActionsDeclined-{since}"),
        ("AutopilotRuleObject", f"logs-grow-ActionsDeclined-{since}"),
    ]
