"""Actions are posted to the webhooks of the file, signed, with the same key each time, and to no others."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from tests.kit.processes import free_port
from tests.kit.scheduling_objects import NOW, seen
from tests.kit.waiting import eventually

from pilothouse.api.objects import Object, Tree
from pilothouse.base.clock import SystemClock
from pilothouse.base.rfc3339 import format_time
from pilothouse.controllers.application_actions.webhook_actions import webhook_actions
from pilothouse.rules.providers.autopilot_config import (
    AutopilotConfig,
    ConfigError,
    WebhookConfig,
    config_of,
)
from pilothouse.rules.webhooks import WebhookObserver, post
from pilothouse.runtime.intents import Intent, SetStatus, Wait

HOOK = {"name": "tickets", "url": "https://tickets.example.com"}


def action(**progress: str) -> Tree:
    condition = {"type": "Complete", "status": "False", "reason": "Posting", "message": ""}
    status = {"phase": "Running", "conditions": [condition], "progress": progress}
    return {
        "apiVersion": "autopilot.libopenstorage.org/v1alpha1",
        "kind": "ApplicationAction",
        "metadata": {"name": "tell-1", "namespace": "default", "uid": "u1"},
        "spec": {
            "rule": "tell",
            "object": {"kind": "PersistentVolumeClaim", "name": "data"},
            "action": "openstorage.io.action.volume/webhook",
            "parameters": {"name": "tickets"},
        },
        **({"status": status} if progress else {}),
    }


def status_of(intents: list[Intent]) -> tuple[str, Tree]:
    (written,) = [each for each in intents if isinstance(each, SetStatus)]
    return str(written.status["phase"]), dict(written.status.get("progress") or {})


def test_a_post_is_asked_for_answered_and_repeated() -> None:
    asked = format_time(NOW)
    assert status_of(seen(webhook_actions, action())) == ("Running", {"post": "1", "asked": asked})
    (waits,) = seen(webhook_actions, action(post="1", asked=asked))
    assert isinstance(waits, Wait)
    done = seen(webhook_actions, action(post="1", asked=asked, answer="1 202"))
    assert status_of(done)[0] == "Succeeded"
    failed = action(post="1", asked=asked, answer="1 failed: it answers 503")
    (waits,) = seen(webhook_actions, failed)
    assert isinstance(waits, Wait)
    again = seen(webhook_actions, failed, now=NOW + 10)
    assert status_of(again)[1]["post"] == "2"
    refused = action(post="1", asked=asked, answer="1 refused: there is no such webhook")
    assert status_of(seen(webhook_actions, refused))[0] == "Failed"


def test_a_webhook_that_never_answers_fails_the_action() -> None:
    asked = format_time(NOW)
    last = action(post="6", asked=asked, answer="5 failed: it answers 503")
    assert status_of(seen(webhook_actions, last, now=NOW + 120))[0] == "Failed"


def test_posts_are_signed_and_redirects_are_not_followed(tmp_path: Path) -> None:
    key = tmp_path / "key"
    key.write_text("secret\n")
    got: list[tuple[str, str, bytes]] = []

    async def receive(request: web.Request) -> web.Response:
        headers = request.headers
        got.append((headers["Idempotency-Key"], headers["X-Pilothouse-Signature"], await request.read()))
        if request.path == "/away":
            return web.Response(status=307, headers={"Location": "/"})
        return web.Response(status=202)

    async def scenario() -> list[str]:
        app = web.Application()
        app.router.add_post("/{rest:.*}", receive)
        runner = web.AppRunner(app)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        host, port = runner.addresses[0][:2]
        try:
            return [
                await post(
                    WebhookConfig("tickets", f"http://{host}:{port}{path}", secret_file=str(key)),
                    Object.of(action()),
                    key="u1",
                )
                for path in ("/", "/", "/away")
            ]
        finally:
            await runner.cleanup()

    assert asyncio.run(scenario()) == ["202", "202", "failed: it answers 307"]
    assert len(got) == 3
    assert {each[0] for each in got} == {"u1"}
    for _, signature, body in got:
        assert signature == f"sha256={hmac.new(b'secret', body, hashlib.sha256).hexdigest()}"


def test_failures_do_not_tell_the_path_of_a_webhook() -> None:
    """Of many webhooks the path is the secret, and answers are in the status of actions."""

    async def scenario() -> list[str]:
        async def garbage(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"HTTP/9.9 what\r\n\r\n")
            writer.close()

        server = await asyncio.start_server(garbage, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        async with server:
            return [
                await post(
                    WebhookConfig("tickets", f"http://127.0.0.1:{each}/services/s3cret?token=t0ken"),
                    Object.of(action()),
                    key="u1",
                )
                for each in (port, free_port())
            ]

    for answer in asyncio.run(scenario()):
        assert answer.startswith("failed: http://127.0.0.1:")
        assert "s3cret" not in answer
        assert "t0ken" not in answer


class FakeInformer:
    """As much of an informer as the observer uses."""

    def __init__(self, *objects: Object) -> None:
        self.cache = self
        self._objects = objects

    def list(self) -> tuple[Object, ...]:
        return self._objects

    def subscribe(self, changed: Any) -> Any:
        changed(None)
        return lambda: None


class FakeApi:
    def __init__(self) -> None:
        self.answered: list[str] = []
        self.some = asyncio.Event()

    async def patch(self, _: Any, name: str, *__: Any, **___: Any) -> None:
        self.answered.append(name)
        self.some.set()


def test_a_webhook_that_hangs_delays_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    def asked(number: int, hook: str) -> Object:
        tree = action(post="1", asked=format_time(NOW))
        tree["metadata"] |= {"name": f"{hook}-{number}", "uid": f"{hook}-{number}"}
        tree["spec"]["parameters"] = {"name": hook}
        return Object.of(tree)

    async def posted(hook: WebhookConfig, about: Object, *, key: str) -> str:
        await asyncio.sleep(3600 if hook.name == "hangs" else 0)
        return "202"

    hooks = tuple(WebhookConfig(name, "http://hook") for name in ("hangs", "tickets"))
    monkeypatch.setattr("pilothouse.rules.webhooks.post", posted)
    monkeypatch.setattr(WebhookObserver, "_config", lambda _: AutopilotConfig(webhooks=hooks))
    actions = FakeInformer(*(asked(each, "hangs") for each in range(20)), asked(0, "tickets"))
    api = FakeApi()
    observer: Any = WebhookObserver(
        api,  # type: ignore[arg-type]
        actions,  # type: ignore[arg-type]
        FakeInformer(),  # type: ignore[arg-type]
        FakeInformer(),  # type: ignore[arg-type]
        SystemClock(),
        None,
    )

    async def scenario() -> None:
        running = asyncio.ensure_future(observer.run(lambda: None))
        async with asyncio.timeout(5):
            await api.some.wait()
        running.cancel()
        await asyncio.wait([running])

    asyncio.run(scenario())
    assert api.answered == ["tickets-0"]


class AnsweredActions:
    """An informer of actions, and the API that writes answers into them."""

    def __init__(self, number: int) -> None:
        self.cache = self
        self._trees = {f"tell-{each}": action(post="1", asked=format_time(NOW)) for each in range(number)}
        for name, tree in self._trees.items():
            tree["metadata"] |= {"name": name, "uid": name}
        self._subscribers: list[Any] = []

    def list(self) -> tuple[Object, ...]:
        return tuple(Object.of(tree) for tree in self._trees.values())

    def subscribe(self, changed: Any) -> Any:
        self._subscribers.append(changed)
        changed(None)
        return lambda: None

    async def patch(self, _: Any, name: str, *__: Any, **___: Any) -> None:
        tree = self._trees[name]
        progress = {**tree["status"]["progress"], "answer": "1 refused: no such webhook"}
        self._trees[name] = {**tree, "status": {**tree["status"], "progress": progress}}
        for changed in self._subscribers:
            changed(None)

    def are_all_answered(self) -> bool:
        return all("answer" in tree["status"]["progress"] for tree in self._trees.values())


def test_nothing_is_kept_of_actions_that_were_answered() -> None:
    actions = AnsweredActions(30)
    observer: Any = WebhookObserver(
        actions,  # type: ignore[arg-type]
        actions,  # type: ignore[arg-type]
        FakeInformer(),  # type: ignore[arg-type]
        FakeInformer(),  # type: ignore[arg-type]
        SystemClock(),
        None,
    )

    async def is_over() -> bool:
        return actions.are_all_answered() and not any(
            each for each in vars(observer).values() if isinstance(each, set)
        )

    async def scenario() -> None:
        running = asyncio.ensure_future(observer.run(lambda: None))
        try:
            await eventually(is_over, seconds=10)
        finally:
            running.cancel()
            await asyncio.wait([running])

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("tree", "problem"),
    [
        ({"gitops": {"name": "x"}}, "gitops: is not supported: an ActionApproval is an object"),
        ({"notify": ["chat"]}, "notify\\[0\\]: there is no webhook chat"),
        ({"webhooks": [HOOK, HOOK]}, "webhooks\\[1\\].name: tickets is given twice"),
        ({"webhooks": [{**HOOK, "url": "file:///etc/passwd"}]}, "must begin with https"),
        ({"webhooks": [{**HOOK, "command": "rm"}]}, "webhooks: Object contains unknown field `command`"),
    ],
)
def test_a_file_that_can_not_be_is_refused(tree: Tree, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        config_of(tree)


def test_the_file_names_webhooks() -> None:
    found = config_of({"webhooks": [{**HOOK, "secretFile": "/etc/key"}], "notify": ["tickets"]})
    assert found.webhooks == (WebhookConfig("tickets", HOOK["url"], secret_file="/etc/key"),)
    assert found.notify == ("tickets",)
