"""Posts ApplicationActions to the webhooks of the configuration file, and answers in their status.

    observer = WebhookObserver(api, actions, approvals, rule_objects, clock, Path("autopilot.yaml"))
    await observer.run(election.fence)          # until cancelled

The body is the object as JSON. ``X-Pilothouse-Signature: sha256=<HMAC>`` is by the webhook's secret, and
``Idempotency-Key`` is the same at each repetition. Redirects are not followed, and an answer has ten seconds
and 64 KiB. The webhooks in ``notify`` get approvals that are asked for, actions that failed or were declined,
and AutopilotRuleObjects whose actions the rule has declined, once each if that was in the last ten minutes;
nothing waits for their answers. A webhook that is slow delays the posts to itself: others get theirs
meanwhile, ``_AT_ONCE`` each. Notices to it wait, however long, but no more than ``_MOST_WAITING``.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import logging
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from pilothouse.aio.task_group import together
from pilothouse.api.kind_names import ApplicationAction
from pilothouse.api.objects import Object
from pilothouse.api.openstorage.actions import WEBHOOKS
from pilothouse.base.clock import Clock
from pilothouse.client.access import AccessError
from pilothouse.client.api import Api, Patch
from pilothouse.client.informer import Informer
from pilothouse.client.transport import TransportError
from pilothouse.meta.errors import StatusError
from pilothouse.rules.object_records import DECLINED
from pilothouse.rules.providers.autopilot_config import (
    AutopilotConfig,
    ConfigError,
    WebhookConfig,
    read_config,
)
from pilothouse.rules.providers.bounded_http import BoundedHttp, FetchFailed
from pilothouse.runtime.intent_executor import FenceOf

_SECONDS: Final = 10.0
_LONGEST: Final = 2**16
_RECENT: Final = 600.0
_RETRY: Final = 1.0
_AT_ONCE: Final = 8
"""Posts to one webhook at the same time."""
_MOST_WAITING: Final = 1000
"""Notices that wait for one webhook; further ones are dropped, with a warning."""
_LONGEST_ANSWER: Final = 500
_LARGEST_SECRET: Final = 2**16

log = logging.getLogger(__name__)


class WebhookObserver:
    """Follows actions, approvals and AutopilotRuleObjects, and posts them."""

    def __init__(
        self,
        api: Api,
        actions: Informer,
        approvals: Informer,
        rule_objects: Informer,
        clock: Clock,
        file: Path | None,
    ) -> None:
        self._api = api
        self._actions = actions
        self._approvals = approvals
        self._rule_objects = rule_objects
        self._clock = clock
        self._file = file
        self._written: set[tuple[str, str]] = set()
        """Uids and numbers of posts that were answered, as long as the cache is behind."""
        self._notified: set[str] = set()
        """The keys of recent notices that wait for their posts, or were posted."""

    async def run(self, fence: FenceOf) -> None:
        """Post until cancelled. ``fence`` raises when this process leads no more."""
        self._written.clear()
        await together({"webhooks": self._answer_all(fence), "notices": self._notify_all(fence)})

    async def _answer_all(self, fence: FenceOf) -> None:
        changed = asyncio.Event()
        end = self._actions.subscribe(lambda _: changed.set())
        try:
            while True:
                await changed.wait()
                changed.clear()
                posts = {
                    (each.uid, _number(each)): each for each in self._actions.cache.list() if _is_asked(each)
                }
                self._written &= posts.keys()
                asked: dict[str, list[Object]] = {}
                for post_of, action in posts.items():
                    if post_of not in self._written:
                        asked.setdefault(_hook(action), []).append(action)
                if any(len(each) > _AT_ONCE for each in asked.values()):
                    changed.set()
                first = [action for each in asked.values() for action in each[:_AT_ONCE]]
                await together({action.uid: self._try_to_answer(action, fence, changed) for action in first})
        finally:
            end()

    async def _try_to_answer(self, action: Object, fence: FenceOf, changed: asyncio.Event) -> None:
        try:
            await self._answer(action, fence)
        except (StatusError, TransportError, AccessError) as problem:
            log.warning("the answer to %s can't be written, retrying: %s", action, problem)
            await asyncio.sleep(_RETRY)
            changed.set()

    async def _notify_all(self, fence: FenceOf) -> None:
        changed = asyncio.Event()
        followed = (self._actions, self._approvals, self._rule_objects)
        ends = [each.subscribe(lambda _: changed.set()) for each in followed]
        waiting: dict[str, asyncio.Queue[_Notice]] = {}
        try:
            async with asyncio.TaskGroup() as group:
                while True:
                    await changed.wait()
                    changed.clear()
                    for notice in await self._new_notices(fence):
                        if notice.hook.name not in waiting:
                            waiting[notice.hook.name] = asyncio.Queue(_MOST_WAITING)
                            group.create_task(_post_notices(waiting[notice.hook.name]))
                        _wait_for_post(waiting[notice.hook.name], notice)
        except BaseExceptionGroup as failed:
            raise failed.exceptions[0] from None
        finally:
            for end in ends:
                end()

    async def _answer(self, action: Object, fence: FenceOf) -> None:
        fence()
        name = _hook(action)
        try:
            config = await asyncio.to_thread(self._config)
            hook = next((each for each in config.webhooks if each.name == name), None)
        except ConfigError as problem:
            answer = f"failed: {problem}"
        else:
            known = ", ".join(each.name for each in config.webhooks) or "none"
            answer = f"refused: --autopilot-config has no webhook {name}; it has {known}"
            if hook is not None:
                answer = await post(hook, action, key=action.uid)
        number = _number(action)
        patch = [
            {"op": "test", "path": "/metadata/uid", "value": action.uid},
            {"op": "test", "path": "/status/progress/post", "value": number},
            {"op": "add", "path": "/status/progress/answer", "value": f"{number} {answer}"[:_LONGEST_ANSWER]},
        ]
        try:
            await self._api.patch(
                ApplicationAction,
                action.name,
                action.namespace,
                patch,
                kind=Patch.JSON,
                subresource="status",
                fence=fence(),
            )
        except StatusError as refusal:
            if refusal.code not in (404, 422):
                raise
            log.info("the answer to %s was not taken: %s", action, refusal)
        self._written.add((action.uid, number))

    async def _new_notices(self, fence: FenceOf) -> list[_Notice]:
        """For each webhook that is to be notified, what it was not notified of."""
        recent = {key: about for about, key in self._notifications()}
        self._notified &= recent.keys()
        found = [(about, key) for key, about in recent.items() if key not in self._notified]
        if not found:
            return []
        fence()
        try:
            config = await asyncio.to_thread(self._config)
        except ConfigError as problem:
            log.warning("nothing is notified: %s", problem)
            return []
        self._notified |= {key for _, key in found}
        hooks = [each for each in config.webhooks if each.name in config.notify]
        return [_Notice(hook, about, key) for about, key in found for hook in hooks]

    def _notifications(self) -> Iterator[tuple[Object, str]]:
        """The objects to notify of, each with its key."""
        now, declined = self._clock.now(), set()
        for action in self._actions.cache.list():
            phase, ended = action.status.get("phase"), action.moment("status", "completionTime")
            if phase in ("Failed", "Declined") and ended is not None and now - ended < _RECENT:
                yield action, f"{action.uid}-{phase}"
            if phase == "Declined":
                declined.add((action.namespace, action.name))
        for each in self._rule_objects.cache.list():
            since = each.moment("status", "since")
            if each.status.get("state") != DECLINED or since is None or now - since >= _RECENT:
                continue
            # Without an end, an approval was declined. Else the action may have been, and is told itself.
            by_action = (each.namespace, each.status.get("action")) in declined
            if each.status.get("until") is None or not by_action:
                yield each, f"{each.uid}-{DECLINED}-{each.status['since']}"
        for approval in self._approvals.cache.list():
            if approval.spec.get("approvalState") == "pending" and now - approval.created < _RECENT:
                yield approval, f"{approval.uid}-pending"

    def _config(self) -> AutopilotConfig:
        if self._file is None or not self._file.exists():
            return AutopilotConfig()
        return read_config(self._file)


class _Notice(NamedTuple):
    """What a webhook is to be notified of."""

    hook: WebhookConfig
    about: Object
    key: str

    async def post(self) -> None:
        answer = await post(self.hook, self.about, key=self.key)
        if not answer.startswith("2"):
            log.warning("webhook %s was not notified of %s: %s", self.hook.name, self.about, answer)


def _wait_for_post(waiting: asyncio.Queue[_Notice], notice: _Notice) -> None:
    try:
        waiting.put_nowait(notice)
    except asyncio.QueueFull:
        why = f"{_MOST_WAITING} notices wait for it already"
        log.warning("webhook %s is not notified of %s: %s", notice.hook.name, notice.about, why)


async def _post_notices(waiting: asyncio.Queue[_Notice]) -> None:
    """Post what waits for one webhook, until cancelled."""

    async def post_each() -> None:
        while True:
            await (await waiting.get()).post()

    await together({str(number): post_each() for number in range(_AT_ONCE)})


async def post(hook: WebhookConfig, about: Object, *, key: str) -> str:
    """The HTTP status that a webhook answers, or why it did not."""
    body = msgspec.json.encode(about.tree)
    try:
        secret, tls = await asyncio.to_thread(_files, hook)
    except (OSError, ssl.SSLError, ValueError) as problem:
        return f"failed: {problem}"
    headers = {"Content-Type": "application/json", "Idempotency-Key": key}
    if secret:
        headers["X-Pilothouse-Signature"] = f"sha256={hmac.new(secret, body, hashlib.sha256).hexdigest()}"
    async with BoundedHttp(tls) as http:
        try:
            page = await http.post(hook.url, body, longest=_LONGEST, seconds=_SECONDS, headers=headers)
        except FetchFailed as problem:
            return f"failed: {problem}"
    return str(page.status) if page.status < 300 else f"failed: it answers {page.status}"


def _files(hook: WebhookConfig) -> tuple[bytes, ssl.SSLContext | None]:
    """The secret and the TLS settings. Raises ``OSError``, ``ssl.SSLError`` or ``ValueError``."""
    secret = b""
    if hook.secret_file:
        with Path(hook.secret_file).open("rb") as file:
            secret = file.read(_LARGEST_SECRET).strip()
        if not secret:
            raise ValueError(f"{hook.secret_file} is empty")
    return secret, ssl.create_default_context(cafile=hook.ca) if hook.ca else None


def _is_asked(action: Object) -> bool:
    progress = action.status.get("progress") or {}
    answered = str(progress.get("answer", "")).partition(" ")[0]
    running = action.spec.get("action") in WEBHOOKS and action.status.get("phase") == "Running"
    return running and not action.deleting and bool(progress.get("post")) and answered != progress["post"]


def _hook(action: Object) -> str:
    return str(action.at("spec", "parameters", "name", default=""))


def _number(action: Object) -> str:
    return str((action.status.get("progress") or {}).get("post", ""))
