"""Intents carried out, in order, under a fence.

    acts = await actor.carry_out(intents, seen, key, office.fence)

The first that does not come off ends it: those after it may rest on it. What was meant for the version that was seen is
refused by the server when there is another by now; then the decision is taken again, with that in view. What a decision
wrote itself does not count as such a change: a second write to the same object goes on from the first.

Of a write whose answer was lost nobody knows what became. The server is asked, for as long as it takes, so that the next decision
has it in view if it was carried out.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import Final

from pilothouse.api.kind_names import KindName
from pilothouse.api.objects import Object, Tree
from pilothouse.base.backoff import Backoff
from pilothouse.client.access import AccessError
from pilothouse.client.api import Api
from pilothouse.client.fence import FENCED, LeadershipFence
from pilothouse.client.subresources import bind, evict
from pilothouse.client.transport import NotSent, TransportError
from pilothouse.meta.errors import StatusError
from pilothouse.runtime.controller import ReconcileKey
from pilothouse.runtime.expectations import Expectations
from pilothouse.runtime.intents import (
    Apply,
    Bind,
    Create,
    Delete,
    DeleteAll,
    Evict,
    Intent,
    ObjectTarget,
    PatchObject,
    RecordEvent,
    RequeueAfter,
    SetStatus,
    Update,
    Wait,
    subject,
)
from pilothouse.runtime.leader_fence import LeadershipLost
from pilothouse.runtime.reconcile_result import ExecutedIntent, IntentOutcome

_CHANGED: Final = frozenset({"Conflict", "AlreadyExists", "NotFound", "Gone"})
"""Refusals that mean: the world is not what the decision saw."""

_LOOKING: Final = Backoff(first=0.1, factor=2.0, longest=5.0)
"""Between two attempts to see what became of a write."""

log = logging.getLogger(__name__)

NounOf = Callable[[str, str], KindName | None]
"""The noun of an apiVersion and a kind."""
FenceOf = Callable[[], LeadershipFence | None]
"""What to act under at this moment. Raises ``LeadershipLost``."""
TellOf = Callable[[Object, str, str, bool], None]
"""Tells an event: about whom, its reason, its message, whether it is a warning."""


FAILED_CREATE: Final = "FailedCreate"
"""The reason of the event about an object for which another can't be created, as Kubernetes' controllers have it."""
_LATER: Final = (401, 408, 429)
"""Codes with which a server asks to be tried again, or to be asked by somebody whom it knows."""


class UnknownKind(LookupError):
    """An intent is about a kind that neither its controller has named nor the server has been found to serve."""


class IntentExecutor:
    """Carries out what one controller decides."""

    def __init__(
        self, api: Api, *, manager: str, noun_of: NounOf, tell: TellOf, expectations: Expectations
    ) -> None:
        self._api = api
        self._manager = manager
        self._noun_of = noun_of
        self._tell = tell
        self._expectations = expectations

    async def carry_out(
        self, intents: Iterable[Intent], seen: Object, key: ReconcileKey, fence: FenceOf
    ) -> tuple[ExecutedIntent, ...]:
        """What came of each. Raises ``LeadershipLost`` once another leads."""
        acts: list[ExecutedIntent] = []
        going = _Going(self, key, fence)
        stopped = False
        for intent in intents:
            if stopped:
                acts.append(ExecutedIntent(intent, IntentOutcome.PENDING))
                continue
            act = await self._attempt(intent, going)
            acts.append(act)
            stopped = act.outcome in (IntentOutcome.REFUSED, IntentOutcome.FAILED)
            if act.is_rejected and isinstance(intent, Create):
                self._tell(seen, FAILED_CREATE, _failed_create(intent, seen, act.message), True)
            if intent.event and act.outcome is IntentOutcome.DONE:
                about = intent.about if isinstance(intent, RecordEvent) else seen
                self._tell(
                    about, intent.event, intent.because, isinstance(intent, RecordEvent) and intent.warning
                )
        return tuple(acts)

    async def _attempt(self, intent: Intent, going: _Going) -> ExecutedIntent:
        try:
            return ExecutedIntent(intent, *await going.attempt(intent))
        except LeadershipLost:
            raise
        except StatusError as refusal:
            if refusal.reason == FENCED:
                raise LeadershipLost(refusal.message) from refusal
            if refusal.reason in _CHANGED:
                if refusal.code == 404 and isinstance(intent, (Delete, Evict)):
                    return ExecutedIntent(intent, IntentOutcome.SKIPPED, "it is gone already")
                return ExecutedIntent(intent, IntentOutcome.REFUSED, refusal.message)
            if refusal.code >= 500:
                await going.look(intent)
            rejected = 400 <= refusal.code < 500 and refusal.code not in _LATER
            return ExecutedIntent(intent, IntentOutcome.FAILED, refusal.message, is_rejected=rejected)
        except TransportError as problem:
            going.check()
            # What was not sent was not carried out; an apply may have been sent before.
            if not isinstance(problem, NotSent) or isinstance(intent, Apply):
                await going.look(intent)
            return ExecutedIntent(intent, IntentOutcome.FAILED, str(problem))
        except (UnknownKind, AccessError) as problem:
            return ExecutedIntent(intent, IntentOutcome.FAILED, str(problem))
        except Exception as problem:
            log.exception("%r can't be carried out", intent)
            return ExecutedIntent(intent, IntentOutcome.FAILED, f"{type(problem).__name__}: {problem}")

    # What ``_Going`` shares among the intents of one decision is kept there; what outlives it is here.

    @property
    def api(self) -> Api:
        return self._api

    @property
    def manager(self) -> str:
        return self._manager

    def noun(self, api_version: str, kind: str) -> KindName:
        """Raises UnknownKind."""
        found = self._noun_of(api_version, kind)
        if found is None:
            raise UnknownKind(f"the server has no kind {kind} of {api_version}")
        return found

    @property
    def expectations(self) -> Expectations:
        return self._expectations


def _failed_create(intent: Create, seen: Object, message: str) -> str:
    """In the words of Kubernetes' controllers."""
    made, metadata = intent.object["kind"], intent.object["metadata"]
    name = metadata.get("name") or metadata.get("generateName", "")
    return f"create {made} {name} in {seen.kind} {seen.name} failed error: {message}"


class _Going:
    """The intents of one decision, under way."""

    def __init__(self, actor: IntentExecutor, key: ReconcileKey, fence: FenceOf) -> None:
        self._actor = actor
        self._api = actor.api
        self._expectations = actor.expectations
        self._key = key
        self._fence_of = fence
        self._moved: dict[str, str] = {}
        """The versions of the objects that this decision has written itself, by uid."""

    @property
    def _fence(self) -> LeadershipFence | None:
        """Asked for with each write, and not once: the term may be over by then."""
        return self._fence_of()

    def check(self) -> None:
        """Raises ``LeadershipLost`` where nothing more may be done."""
        self._fence_of()

    async def attempt(self, intent: Intent) -> tuple[IntentOutcome, str]:
        match intent:
            case Create():
                return await self._create(intent)
            case Apply():
                return await self._apply(intent)
            case Update():
                return await self._update(intent)
            case PatchObject():
                return await self._patch(intent)
            case SetStatus():
                return await self._set_status(intent)
            case Delete():
                return await self._delete(intent)
            case DeleteAll():
                await self._api.delete_collection(intent.noun, intent.namespace, fence=self._fence)
                return IntentOutcome.DONE, ""
            case Evict():
                seen = intent.seen
                await evict(
                    self._api,
                    seen.name,
                    seen.namespace,
                    uid=seen.uid,
                    grace=intent.grace,
                    fence=self._fence,
                )
                self._expectations.evicted(self._key, self._noun(seen), seen)
                return IntentOutcome.DONE, ""
            case Bind():
                return await self._bind(intent)
            case RecordEvent():
                return IntentOutcome.DONE, ""
            case Wait() | RequeueAfter():
                return IntentOutcome.PENDING, ""
            case _:
                raise TypeError(f"nobody knows how to carry out {intent!r}")

    async def look(self, intent: Intent) -> None:
        """See what became of a write of which nobody knows. Raises ``LeadershipLost``."""
        failures = 0
        while True:
            self._fence_of()
            try:
                await self._see(intent)
            except StatusError as refusal:
                if refusal.code < 500 and refusal.code != 429:
                    log.warning("what became of %r can't be seen: %s", intent, refusal.message)
                    return
            except (TransportError, AccessError) as problem:
                log.info("what became of %r can't be seen yet: %s", intent, problem)
            else:
                return
            failures += 1
            await asyncio.sleep(_LOOKING.after(failures))

    async def _see(self, intent: Intent) -> None:
        about = subject(intent)
        if about is None or isinstance(intent, DeleteAll):
            return
        api_version, kind, namespace, name = about
        noun = self._actor.noun(api_version, kind)
        if isinstance(intent, Create) and not intent.object["metadata"].get("name"):
            # It may have any name: what counts is how far the whole kind is.
            page = await self._api.page(noun, namespace, {"limit": "1"})
            self._expectations.wrote(self._key, noun, page.revision)
        elif (found := await self._api.find(noun, name, namespace)) is not None:
            self._expectations.wrote(self._key, noun, found.revision)
        elif isinstance(intent, (Update, PatchObject, SetStatus, Delete, Evict, Bind)):
            self._expectations.gone(self._key, noun, intent.seen)

    async def _create(self, intent: Create) -> tuple[IntentOutcome, str]:
        tree = intent.object
        noun = self._actor.noun(tree["apiVersion"], tree["kind"])
        self._took(noun, await self._api.create(noun, tree, manager=self._actor.manager, fence=self._fence))
        return IntentOutcome.DONE, ""

    async def _apply(self, intent: Apply) -> tuple[IntentOutcome, str]:
        tree = intent.object
        noun = self._actor.noun(tree["apiVersion"], tree["kind"])
        written = await self._api.apply(
            noun,
            tree,
            force=True,
            subresource=intent.subresource,
            manager=self._actor.manager,
            fence=self._fence,
        )
        self._took(noun, written)
        return IntentOutcome.DONE, ""

    async def _update(self, intent: Update) -> tuple[IntentOutcome, str]:
        if there := await self._found(intent.unless):
            return IntentOutcome.REFUSED, there
        seen = intent.seen
        if intent.object == seen.tree:
            return IntentOutcome.SKIPPED, ""
        await self._put(seen, intent.object, intent.subresource)
        return IntentOutcome.DONE, ""

    async def _set_status(self, intent: SetStatus) -> tuple[IntentOutcome, str]:
        seen = intent.seen
        if intent.status == seen.status:
            return IntentOutcome.SKIPPED, ""
        await self._put(seen, {**seen.tree, "status": intent.status}, "status")
        return IntentOutcome.DONE, ""

    async def _put(self, seen: Object, tree: Tree, subresource: str) -> None:
        noun = self._noun(seen)
        meta = {**tree["metadata"], "resourceVersion": self._version(seen)}
        written = await self._api.update(
            noun,
            {**tree, "metadata": meta},
            subresource=subresource,
            manager=self._actor.manager,
            fence=self._fence,
        )
        self._took(noun, written)

    async def _patch(self, intent: PatchObject) -> tuple[IntentOutcome, str]:
        if there := await self._found(intent.unless) or await self._lacking(intent.provided):
            return IntentOutcome.REFUSED, there
        seen, fields = intent.seen, intent.fields
        noun = self._noun(seen)
        named: Tree = {"uid": seen.uid} if seen.uid else {}
        if intent.exact:
            named["resourceVersion"] = self._version(seen)
        if named:
            fields = {**fields, "metadata": {**fields.get("metadata", {}), **named}}
        written = await self._api.patch(
            noun,
            seen.name,
            seen.namespace,
            fields,
            subresource=intent.subresource,
            manager=self._actor.manager,
            fence=self._fence,
        )
        self._took(noun, written)
        return IntentOutcome.DONE, ""

    async def _delete(self, intent: Delete) -> tuple[IntentOutcome, str]:
        if there := await self._found(intent.unless):
            return IntentOutcome.REFUSED, there
        seen = intent.seen
        noun = self._noun(seen)
        left = await self._api.delete(
            noun,
            seen.name,
            seen.namespace,
            uid=seen.uid,
            revision=self._version(seen) if intent.exact else "",
            propagation=intent.propagation,
            grace=intent.grace,
            fence=self._fence,
        )
        if left is not None:
            self._took(noun, left)
        else:
            self._expectations.gone(self._key, noun, seen)
        return IntentOutcome.DONE, ""

    async def _bind(self, intent: Bind) -> tuple[IntentOutcome, str]:
        seen = intent.seen
        await bind(self._api, seen.name, seen.namespace, intent.node, uid=seen.uid, fence=self._fence)
        self._expectations.bound(self._key, self._noun(seen), seen)
        return IntentOutcome.DONE, ""

    async def _found(self, others: Iterable[ObjectTarget]) -> str:
        """Which of these is there after all, in words; empty if none is."""
        for other in others:
            if other.name:
                found = await self._api.find(other.noun, other.name, other.namespace)
                if found is not None and other.uid in ("", found.uid):
                    return f"{other.noun.kind} {other.name} is there after all"
            else:
                page = await self._api.page(other.noun, other.namespace, {"limit": "1"})
                if page.objects:
                    return (
                        f"there is a {other.noun.kind} in {other.namespace} after all: {page.objects[0].name}"
                    )
        return ""

    async def _lacking(self, other: ObjectTarget | None) -> str:
        """That this one is gone, or about to be, in words; empty if it is there and stays."""
        if other is None:
            return ""
        found = await self._api.find(other.noun, other.name, other.namespace)
        if found is None or found.uid != other.uid:
            return f"{other.noun.kind} {other.name} is gone"
        return f"{other.noun.kind} {other.name} is being deleted" if found.deleting else ""

    def _noun(self, seen: Object) -> KindName:
        return self._actor.noun(seen.api_version, seen.kind)

    def _version(self, seen: Object) -> str:
        return self._moved.get(seen.uid, seen.resource_version)

    def _took(self, noun: KindName, written: Object) -> None:
        if written.uid:
            self._moved[written.uid] = written.resource_version
        self._expectations.wrote(self._key, noun, written.revision)
