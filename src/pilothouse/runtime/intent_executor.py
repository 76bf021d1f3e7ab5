"""Executes the intents of a decision, in order, under a fence.

    executed = await executor.execute(intents, seen, key, election.fence)

Execution stops at the first intent that is refused or fails, since later ones may depend on it. Neighbours
that are independent of each other are executed at the same time, ``AT_ONCE`` at most: the server then commits
several with one sync to disk, which halves what a write costs it. A write that
names a version is refused by the server when the object has changed, except by this decision itself; the
engine then decides again. When the answer to a write is lost, the executor reads the object back, for as long
as it takes, so that the next decision sees whether the write was made.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

from pilothouse.aio.task_group import together
from pilothouse.api.field_paths import value_at
from pilothouse.api.kind_names import KindName, noun_of
from pilothouse.api.objects import Object, Tree
from pilothouse.base.backoff import Backoff
from pilothouse.base.quantity import parse_quantity
from pilothouse.client.access import AccessError
from pilothouse.client.api import Api
from pilothouse.client.discovery import NoSuchKind, discover
from pilothouse.client.fence import FENCED, LeadershipFence
from pilothouse.client.subresources import bind, evict
from pilothouse.client.transport import NotSent, TransportError
from pilothouse.meta.errors import StatusError
from pilothouse.runtime.controller import ReconcileKey
from pilothouse.runtime.election import LeadershipLost
from pilothouse.runtime.event_recorder import MANAGER, EventSource
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
    SeenCondition,
    SetStatus,
    Update,
    Wait,
    subject,
)
from pilothouse.runtime.reconcile_result import ExecutedIntent, IntentOutcome

_CHANGED: Final = frozenset({"Conflict", "AlreadyExists", "NotFound", "Gone"})
"""Reasons of refusals that mean: the objects are not what the decision saw."""

_SPENT: Final = "DisruptionBudget"
"""The cause of a refusal: a disruption budget does not allow the eviction."""

_POLL: Final = Backoff(first=0.1, factor=2.0, longest=5.0)
"""Between two attempts to read back a write."""

log = logging.getLogger(__name__)

NounOf = Callable[[str, str], KindName | None]
"""The noun of an apiVersion and a kind."""
FenceOf = Callable[[], LeadershipFence | None]
"""Returns the fence for a write at this moment. Raises ``LeadershipLost``."""
EventSink = Callable[[Object, str, str, bool, EventSource], None]
"""Records an event: the object, the reason, the message, whether it is a warning, and its source."""
FAILED_CREATE: Final = "FailedCreate"
"""The reason of the event when an object's dependent can't be created, as in Kubernetes' controllers."""
_LATER: Final = (401, 408, 429)
"""Codes after which the same request may succeed later."""

AT_ONCE: Final = 16
"""Independent intents of one decision that are executed at the same time."""
_STOPPING: Final = (IntentOutcome.REFUSED, IntentOutcome.FAILED)

Attempt = tuple[IntentOutcome, str]
"""The outcome of an intent, and a message."""
_DONE: Final = (IntentOutcome.DONE, "")


class UnknownKind(LookupError):
    """An intent names a kind that neither its controller declares nor the server serves."""


class IntentExecutor:
    def __init__(
        self, api: Api, *, manager: str, noun_of: NounOf, record_event: EventSink, expectations: Expectations
    ) -> None:
        self.api = api
        self.manager = manager
        self.expectations = expectations
        self._noun_of = noun_of
        self._record_event = record_event

    async def execute(
        self, intents: Iterable[Intent], seen: Object, key: ReconcileKey, fence: FenceOf
    ) -> tuple[ExecutedIntent, ...]:
        """Return the outcome of each intent. Raises ``LeadershipLost`` once another process leads."""
        executed: list[ExecutedIntent] = []
        execution = _Execution(self, key, fence)
        stopped = False
        for batch in _batches(intents):
            if stopped:
                executed += (ExecutedIntent(intent, IntentOutcome.PENDING) for intent in batch)
                continue
            attempted = await self._attempt_all(batch, execution)
            for each in attempted:
                self._record(each, seen)
            executed += attempted
            stopped = any(each.outcome in _STOPPING for each in attempted)
        return tuple(executed)

    def _record(self, each: ExecutedIntent, seen: Object) -> None:
        """Record the event of an intent that was attempted."""
        intent = each.intent
        if each.is_rejected and isinstance(intent, Create):
            message = _failed_create(intent, seen, each.message)
            self._record_event(seen, FAILED_CREATE, message, True, MANAGER)
        if intent.event and each.outcome is IntentOutcome.DONE:
            if isinstance(intent, RecordEvent):
                self._record_event(intent.about, intent.event, intent.because, intent.warning, intent.source)
            else:
                self._record_event(seen, intent.event, intent.because, False, MANAGER)

    async def _attempt_all(self, batch: Sequence[Intent], execution: _Execution) -> list[ExecutedIntent]:
        """Attempt one intent, or several at the same time; after a failure no further one begins."""
        attempted = [ExecutedIntent(intent, IntentOutcome.PENDING) for intent in batch]
        waiting = deque(enumerate(batch))

        async def work() -> None:
            while waiting:
                index, intent = waiting.popleft()
                attempted[index] = await self._attempt(intent, execution)
                if attempted[index].outcome is IntentOutcome.FAILED:
                    waiting.clear()

        if len(batch) == 1:
            await work()
        else:
            await together({f"write {number}": work() for number in range(min(len(batch), AT_ONCE))})
        return attempted

    async def _attempt(self, intent: Intent, execution: _Execution) -> ExecutedIntent:
        try:
            return ExecutedIntent(intent, *await execution.attempt(intent))
        except LeadershipLost:
            raise
        except StatusError as refusal:
            if refusal.reason == FENCED:
                raise LeadershipLost(refusal.message) from refusal
            if refusal.reason in _CHANGED:
                if refusal.code == 404 and isinstance(intent, (Delete, Evict)):
                    return ExecutedIntent(intent, IntentOutcome.SKIPPED, "the object is gone already")
                return ExecutedIntent(intent, IntentOutcome.REFUSED, refusal.message)
            if any(cause.reason == _SPENT for cause in refusal.causes):
                return ExecutedIntent(intent, IntentOutcome.REFUSED, refusal.causes[0].message)
            if refusal.code >= 500:
                await execution.resolve(intent)
            rejected = 400 <= refusal.code < 500 and refusal.code not in _LATER
            return ExecutedIntent(intent, IntentOutcome.FAILED, refusal.message, is_rejected=rejected)
        except TransportError as problem:
            execution.fence()
            # A request that was not sent has changed nothing; an apply may have been sent before.
            if not isinstance(problem, NotSent) or isinstance(intent, Apply):
                await execution.resolve(intent)
            return ExecutedIntent(intent, IntentOutcome.FAILED, str(problem))
        except (UnknownKind, AccessError) as problem:
            return ExecutedIntent(intent, IntentOutcome.FAILED, str(problem))
        except Exception as problem:
            log.exception("%r failed", intent)
            return ExecutedIntent(intent, IntentOutcome.FAILED, f"{type(problem).__name__}: {problem}")

    def noun(self, api_version: str, kind: str) -> KindName:
        """Raises UnknownKind."""
        found = self._noun_of(api_version, kind)
        if found is None:
            raise UnknownKind(f"the server has no kind {kind} of {api_version}")
        return found


def _batches(intents: Iterable[Intent]) -> Iterator[Sequence[Intent]]:
    """Single intents, and neighbours that are independent of each other."""
    several: list[Intent] = []
    for intent in intents:
        if isinstance(intent, PatchObject) and intent.independent:
            several.append(intent)
            continue
        if several:
            yield several
            several = []
        yield [intent]
    if several:
        yield several


def _failed_create(intent: Create, seen: Object, message: str) -> str:
    """The message that Kubernetes' controllers have."""
    made, metadata = intent.object["kind"], intent.object["metadata"]
    name = metadata.get("name") or metadata.get("generateName", "")
    return f"create {made} {name} in {seen.kind} {seen.name} failed error: {message}"


class _Execution:
    """Executes the intents of one decision, which share the versions that it has written."""

    def __init__(self, executor: IntentExecutor, key: ReconcileKey, fence: FenceOf) -> None:
        self._executor = executor
        self._api = executor.api
        self._expectations = executor.expectations
        self._key = key
        self.fence = fence
        """Called for each write, since the term may end between two."""
        self._versions: dict[str, str] = {}
        """The resourceVersions of the objects that this decision has written, by uid."""

    async def attempt(self, intent: Intent) -> Attempt:
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
                await self._api.delete_collection(intent.noun, intent.namespace, fence=self.fence())
                return _DONE
            case Evict():
                return await self._evict(intent)
            case Bind():
                return await self._bind(intent)
            case RecordEvent():
                return _DONE
            case Wait() | RequeueAfter():
                return IntentOutcome.PENDING, ""
            case _:
                raise TypeError(f"there is no way to execute {intent!r}")

    async def resolve(self, intent: Intent) -> None:
        """Read back a write whose answer was lost. Raises ``LeadershipLost``."""
        failures = 0
        while True:
            self.fence()
            try:
                await self._read_back(intent)
            except StatusError as refusal:
                if refusal.code < 500 and refusal.code != 429:
                    log.warning("can't read back %r: %s", intent, refusal.message)
                    return
            except (TransportError, AccessError) as problem:
                log.info("can't read back %r yet: %s", intent, problem)
            else:
                return
            failures += 1
            await asyncio.sleep(_POLL.after(failures))

    async def _read_back(self, intent: Intent) -> None:
        about = subject(intent)
        if about is None or isinstance(intent, DeleteAll):
            return
        if isinstance(intent, PatchObject) and intent.raises:
            return  # It is read from the server before each attempt.
        api_version, kind, namespace, name = about
        noun = self._executor.noun(api_version, kind)
        if isinstance(intent, Create) and not intent.object["metadata"].get("name"):
            # The server chose the name: wait until the cache of the kind has come as far as the server is.
            page = await self._api.page(noun, namespace, {"limit": "1"})
            self._expectations.wrote(self._key, noun, page.revision)
        elif (found := await self._api.find(noun, name, namespace)) is not None:
            self._expectations.wrote(self._key, noun, found.revision)
        elif isinstance(intent, (Update, PatchObject, SetStatus, Delete, Evict, Bind)):
            self._expectations.gone(self._key, noun, intent.seen)

    async def _create(self, intent: Create) -> Attempt:
        tree = intent.object
        noun = self._executor.noun(tree["apiVersion"], tree["kind"])
        if noun.version != tree["apiVersion"].rpartition("/")[2]:
            tree = {**tree, "apiVersion": noun.api_version}
        written = await self._api.create(noun, tree, manager=self._executor.manager, fence=self.fence())
        return self._wrote(noun, written)

    async def _apply(self, intent: Apply) -> Attempt:
        tree = intent.object
        noun = self._executor.noun(tree["apiVersion"], tree["kind"])
        written = await self._api.apply(
            noun,
            tree,
            force=True,
            subresource=intent.subresource,
            manager=self._executor.manager,
            fence=self.fence(),
        )
        return self._wrote(noun, written)

    async def _update(self, intent: Update) -> Attempt:
        if there := await self._present(intent.unless):
            return IntentOutcome.REFUSED, there
        seen = intent.seen
        if intent.object == seen.tree:
            return IntentOutcome.SKIPPED, ""
        return await self._put(seen, intent.object, intent.subresource)

    async def _set_status(self, intent: SetStatus) -> Attempt:
        seen = intent.seen
        if intent.status == seen.status:
            return IntentOutcome.SKIPPED, ""
        return await self._put(seen, {**seen.tree, "status": intent.status}, "status")

    async def _put(self, seen: Object, tree: Tree, subresource: str) -> Attempt:
        noun = self._noun(seen)
        meta = {**tree["metadata"], "resourceVersion": self._version(seen)}
        written = await self._api.update(
            noun,
            {**tree, "metadata": meta},
            subresource=subresource,
            manager=self._executor.manager,
            fence=self.fence(),
        )
        return self._wrote(noun, written)

    async def _patch(self, intent: PatchObject) -> Attempt:
        if there := await self._present(intent.unless) or await self._absent(intent.provided):
            return IntentOutcome.REFUSED, there
        seen, fields = intent.seen, intent.fields
        if intent.raises:
            return await self._raise(intent)
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
            manager=self._executor.manager,
            fence=self.fence(),
        )
        return self._wrote(noun, written)

    async def _raise(self, intent: PatchObject) -> Attempt:
        seen, path = intent.seen, intent.raises
        noun = await self._served(seen)
        found = await self._api.get(noun, seen.name, seen.namespace)
        if seen.uid and found.uid != seen.uid:
            return IntentOutcome.REFUSED, f"{seen.kind} {seen.name} is another one of that name"
        present, wanted = value_at(found.tree, path), value_at(intent.fields, path)
        try:
            if present is None:
                return IntentOutcome.FAILED, f"{seen.kind} {seen.name} has no field {path}"
            if parse_quantity(present) >= parse_quantity(wanted):
                return IntentOutcome.SKIPPED, f"{path} is {present} already"
        except (ValueError, TypeError):
            return IntentOutcome.FAILED, f"{path} of {seen.kind} {seen.name} is not a quantity: {present!r}"
        named = {"uid": found.uid, "resourceVersion": found.resource_version}
        await self._api.patch(
            noun,
            seen.name,
            seen.namespace,
            {**intent.fields, "metadata": named},
            manager=self._executor.manager,
            fence=self.fence(),
        )
        # Its kind need not be cached, so that no later decision can wait for what was written.
        return _DONE

    async def _served(self, seen: Object) -> KindName:
        """The noun of an object whose kind may be cached by no controller."""
        try:
            return self._noun(seen)
        except UnknownKind:
            pass
        try:
            noun = noun_of(seen.api_version, seen.kind)
            found = (await discover(self._api)).find(seen.kind, group=noun.group, version=noun.version)
        except NoSuchKind as problem:
            raise UnknownKind(str(problem)) from None
        if seen.namespace and not found.namespaced:
            raise UnknownKind(f"{seen.kind} {seen.name} is in no namespace, and not in {seen.namespace}")
        return found

    async def _delete(self, intent: Delete) -> Attempt:
        if there := await self._present(intent.unless):
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
            fence=self.fence(),
        )
        if left is not None:
            return self._wrote(noun, left)
        self._expectations.gone(self._key, noun, seen)
        return _DONE

    async def _evict(self, intent: Evict) -> Attempt:
        seen = intent.seen
        if intent.premise is not None and (changed := await self._changed(intent.premise)):
            return IntentOutcome.REFUSED, changed
        await evict(
            self._api,
            seen.name,
            seen.namespace,
            uid=seen.uid,
            grace=intent.grace,
            by=intent.by,
            because=intent.because,
            fence=self.fence(),
        )
        self._expectations.evicted(self._key, self._noun(seen), seen)
        return _DONE

    async def _changed(self, premise: SeenCondition) -> str:
        """A message if a condition is another in the server. The next decision then waits for its cache."""
        seen, noun = premise.seen, self._noun(premise.seen)
        found = await self._api.find(noun, seen.name, seen.namespace)
        if found is None or found.uid != seen.uid:
            self._expectations.gone(self._key, noun, seen)
            return f"{seen.kind} {seen.name} is gone"
        was, present = (one.condition(premise.kind) or {} for one in (seen, found))
        if all(was.get(field) == present.get(field) for field in ("status", "reason")):
            return ""
        self._expectations.wrote(self._key, noun, found.revision)
        return f"{premise.kind} of {seen.kind} {seen.name} has changed"

    async def _bind(self, intent: Bind) -> Attempt:
        seen = intent.seen
        await bind(self._api, seen.name, seen.namespace, intent.node, uid=seen.uid, fence=self.fence())
        self._expectations.bound(self._key, self._noun(seen), seen)
        return _DONE

    async def _present(self, others: Iterable[ObjectTarget]) -> str:
        """A message that names the first of these that exists; empty if none does."""
        for other in others:
            if other.name:
                found = await self._api.find(other.noun, other.name, other.namespace)
                if found is not None and other.uid in ("", found.uid):
                    return f"{other.noun.kind} {other.name} exists after all"
            else:
                page = await self._api.page(other.noun, other.namespace, {"limit": "1"})
                if page.objects:
                    return (
                        f"a {other.noun.kind} exists in {other.namespace} after all: {page.objects[0].name}"
                    )
        return ""

    async def _absent(self, other: ObjectTarget | None) -> str:
        """A message that this object is gone or being deleted; empty if it exists and stays."""
        if other is None:
            return ""
        noun = self._executor.noun(other.noun.api_version, other.noun.kind)
        found = await self._api.find(noun, other.name, other.namespace)
        if found is None or found.uid != other.uid:
            return f"{other.noun.kind} {other.name} is gone"
        return f"{other.noun.kind} {other.name} is being deleted" if found.deleting else ""

    def _noun(self, seen: Object) -> KindName:
        return self._executor.noun(seen.api_version, seen.kind)

    def _version(self, seen: Object) -> str:
        return self._versions.get(seen.uid, seen.resource_version)

    def _wrote(self, noun: KindName, written: Object) -> Attempt:
        if written.uid:
            self._versions[written.uid] = written.resource_version
        self._expectations.wrote(self._key, noun, written.revision)
        return _DONE
