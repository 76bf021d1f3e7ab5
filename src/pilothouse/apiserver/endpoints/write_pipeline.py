"""The write pipeline, from a request to the store, in kube-apiserver's order.

    decode → prepare → track managed fields → complete → admit → validate → store

    outcome = await pipeline.create(call, obj, options)
    outcome = await pipeline.update(call, edit, options)        # edit(live): the object that the client wants

Verbs differ only in how they make the object: from the body (create, update), from the stored object and a
patch (patch, scale), by merging (apply). Kinds differ by their ``Kind`` and ``Strategy``.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from itertools import chain, islice
from typing import Any

from pilothouse.aio.worker_thread import on_loop
from pilothouse.apiserver.admission.admission_chain import AdmissionChain
from pilothouse.apiserver.endpoints import decoding, object_metadata, strict_decoding, unmanaged_kinds
from pilothouse.apiserver.endpoints.call import ResourceRequest
from pilothouse.apiserver.endpoints.rendering import render
from pilothouse.apiserver.endpoints.write_options import WriteOptions
from pilothouse.apiserver.server.messages import Response
from pilothouse.apiserver.storage import codec
from pilothouse.apiserver.storage.large_writes import LargeWrites
from pilothouse.apiserver.storage.objects import Change, ObjectRemoval, ObjectStorage, WriteOutcome
from pilothouse.base.clock import Clock
from pilothouse.base.rfc3339 import format_time
from pilothouse.base.uids import Uids
from pilothouse.meta import errors, names
from pilothouse.meta.apply import managed_fields
from pilothouse.meta.fields import MOST_PROBLEMS
from pilothouse.meta.kind import Object
from pilothouse.store.interface import Conflict


class WritePipeline:
    def __init__(
        self, objects: ObjectStorage, admission: AdmissionChain, clock: Clock, uids: Uids, large: LargeWrites
    ) -> None:
        self._objects = objects
        self._admission = admission
        self._clock = clock
        self._uids = uids
        self._large = large

    async def create(
        self, call: ResourceRequest, obj: Object, options: WriteOptions, *, tracked: bool = False
    ) -> WriteOutcome:
        """Store a new object. ``tracked``: its managed fields are already recorded."""
        kind, strategy, request = call.served.kind, call.strategy, call.request
        now = self._clock.now()
        object_metadata.begin(kind, obj, namespace=call.namespace, uid=self._uids.new(), now=now)
        _tidy_references(call, obj, None)
        strategy.prepare_create(call, obj)
        if not tracked:
            await self._large.run(request, lambda: self._track_fields(call, None, obj, options))
        strategy.complete(obj, None)
        strategy.record(call, obj, None)
        if kind.unattended:
            unmanaged_kinds.mark(kind, obj)
            request.warnings.append(f"{kind.name}: {kind.unattended}")
        namespace = await self._admission.admit_create(call, obj)
        await self._large.run(request, lambda: self._check(call, obj, None, namespace))
        return await self._store_created(call, obj, options)

    def update(
        self,
        call: ResourceRequest,
        edit: Callable[[Object], Object],
        options: WriteOptions,
        *,
        tracked: bool = False,
        redacted: bool = False,
    ) -> Coroutine[Any, Any, WriteOutcome]:
        """Store what ``edit`` makes of the live object; 404 if there is none.

        ``edit`` is called again after a conflict. ``tracked``: it records managed fields itself.
        ``redacted``: it may copy stored values, which errors must not quote if the kind is confidential.
        """
        kind, strategy = call.served.kind, call.strategy

        def change(live: Object) -> Object | ObjectRemoval:
            new = edit(live)
            if call.subresource in strategy.status_subresources:
                new = strategy.prepare_status(call, new, live, self._clock.now())
                new = object_metadata.carry_status(kind, new, live)
            else:
                object_metadata.carry(kind, new, live)
                _tidy_references(call, new, live)
            if not tracked:
                self._track_fields(call, live, new, options)
            if call.subresource in ("", "scale"):
                on_loop(strategy.complete, new, live)
                strategy.record(call, new, live)
                if new.get("spec") != live.get("spec"):
                    # An object that is written back as it was read stays as it is.
                    unmanaged_kinds.mark(kind, new)
                object_metadata.advance(kind, new, live)
            self._check(call, new, live, None)
            return ObjectRemoval(new) if object_metadata.ends(kind, new, live) else new

        return self.store(call, _redacting(change) if redacted and kind.confidential else change, options)

    def store(
        self, call: ResourceRequest, change: Change, options: WriteOptions
    ) -> Coroutine[Any, Any, WriteOutcome]:
        """Change the stored object of a call by ``change`` alone; see ``ObjectStorage.amend``."""
        warnings = call.request.warnings
        before = len(warnings)

        def attempt(live: Object) -> Object | ObjectRemoval:
            # Warnings about an attempt that lost its race are not about the next one.
            del warnings[before:]
            return change(live)

        return self._objects.amend(
            call.served,
            call.namespace,
            call.name,
            attempt,
            fence=call.fence,
            dry_run=options.dry_run,
            request=call.request,
        )

    async def _store_created(self, call: ResourceRequest, obj: Object, options: WriteOptions) -> WriteOutcome:
        kind, name = call.served.kind, obj["metadata"]["name"]
        try:
            key = call.served.key(call.namespace, name)
            return await self._objects.create(
                call.served, key, obj, fence=call.fence, dry_run=options.dry_run
            )
        except Conflict as conflict:
            current = conflict.current
        terminating = current is not None and "deletionTimestamp" in codec.decode(current.value)["metadata"]
        raise errors.already_exists(kind.plural, kind.group, name, terminating=terminating)

    def _track_fields(
        self, call: ResourceRequest, live: Object | None, new: Object, options: WriteOptions
    ) -> None:
        managed_fields.track_update(
            live,
            new,
            schema=call.served.kind.schema,
            api_version=call.served.kind.api_version,
            manager=options.manager,
            subresource=call.subresource,
            now=format_time(self._clock.now()),
            reset=reset_fields(call),
            served=call.served.resource.schemas,
            convert=codec.versions_of(call.served.resource),
        )

    def _check(
        self, call: ResourceRequest, new: Object, live: Object | None, namespace: bytes | None
    ) -> None:
        """Raise for an object that may not be written: by its user, by its kind's rules, or by a policy."""
        kind, warnings = call.served.kind, call.request.warnings
        self._admission.authorize(call, new, live)
        problems = names.validate_object_meta(
            new["metadata"],
            namespaced=kind.namespaced,
            name_rule=kind.validate_name,
            live=None if live is None else live["metadata"],
        )
        if live is not None:
            problems += object_metadata.check_finalizers(new, live)
        elif not problems:
            problems += object_metadata.check_segment(new)
        problems += kind.shape.validate(new, live)
        if not problems:
            found = chain(kind.validate(new, live), call.strategy.validate(new, live))
            problems += islice(found, MOST_PROBLEMS + 1)
        if not problems:
            problems += islice(self._admission.admit_valid(call, new, live, namespace), MOST_PROBLEMS + 1)
        if problems:
            raise strict_decoding.invalid(kind, new, problems)
        if live is None:
            warnings += self._admission.warnings(kind, new)
        if not call.subresource:
            warnings += islice(kind.warnings(new, live), MOST_PROBLEMS)


def decode(call: ResourceRequest, validation: str, warnings: list[str]) -> Object:
    kind = call.served.kind
    return strict_decoding.take(kind, decoding.read(call.request, native=kind.native), validation, warnings)


def respond(call: ResourceRequest, outcome: WriteOutcome, status: int) -> Response:
    """The object as it stands after a write, in the version of the request."""
    return render(call.request, call.served, outcome.value, outcome.revision, status)


def reset_fields(call: ResourceRequest) -> tuple[str, ...]:
    """Top-level fields that a write to this endpoint can't set, so no manager owns them."""
    kind = call.served.kind
    if call.subresource in call.strategy.status_subresources:
        written = {"status", "apiVersion", "kind"}
        if kind.status_metadata and call.subresource == "status":
            written.add("metadata")
        return tuple(each for each in kind.schema.properties if each not in written)
    return ("status",) if kind.status else ()


def _tidy_references(call: ResourceRequest, new: Object, live: Object | None) -> None:
    """Drop owner references that are there twice, and warn of them and of odd finalizers."""
    metadata, warnings = new["metadata"], call.request.warnings
    warnings += names.dedupe_owner_references(metadata)
    if not call.served.kind.native:
        warnings += names.finalizer_warnings(metadata, None if live is None else live["metadata"])


def _redacting(change: Change) -> Change:
    """The same change, with errors that quote no stored values."""

    def attempt(live: Object) -> Object | ObjectRemoval:
        try:
            return change(live)
        except errors.StatusError as problem:
            raise strict_decoding.redacted(problem, live) from None

    return attempt
