"""Create, update, delete: one request, one object, one transaction.

The order of steps is kube-apiserver's: decode, prune and default; take over what the server itself sets; record who
manages which field; admit; validate; store if anything changed. Patches join in after their own first step.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from itertools import chain, islice
from random import Random
from typing import Any

import msgspec

from pilothouse.aio.worker_thread import on_loop
from pilothouse.apiserver.admission.admission_chain import AdmissionChain
from pilothouse.apiserver.endpoints import (
    decoding,
    object_metadata,
    strict_decoding,
    unmanaged_kinds,
    write_options,
)
from pilothouse.apiserver.endpoints.call import ResourceRequest
from pilothouse.apiserver.endpoints.large_writes import LargeWrites
from pilothouse.apiserver.endpoints.negotiation import render
from pilothouse.apiserver.endpoints.write_options import ParsedDeleteOptions, WriteOptions
from pilothouse.apiserver.server.messages import Response
from pilothouse.apiserver.storage import codec
from pilothouse.apiserver.storage.objects import ObjectRemoval, ObjectStorage, WriteOutcome
from pilothouse.base.clock import Clock
from pilothouse.base.rfc3339 import format_time
from pilothouse.base.uids import Uids
from pilothouse.meta import errors, names
from pilothouse.meta.apply import managed_fields
from pilothouse.meta.fields import MOST_PROBLEMS, FieldError
from pilothouse.meta.kind import Kind, Object
from pilothouse.store.interface import Conflict

_GENERATED_TRIES = 8


class WriteEndpoints:
    """Writes to whole objects and to their status."""

    def __init__(
        self,
        objects: ObjectStorage,
        admission: AdmissionChain,
        clock: Clock,
        random: Random,
        uids: Uids,
        may_create: Callable[[ResourceRequest], None],
        large: LargeWrites,
    ) -> None:
        self._large = large
        self._may_create = may_create
        self._random = random
        self._objects = objects
        self._admission = admission
        self._clock = clock
        self._uids = uids

    async def create(self, call: ResourceRequest) -> Response:
        """POST to a collection."""
        chosen = write_options.write_options(call.request, call.params, "CreateOptions")
        obj = await self._large.run(call.request, lambda: self._take(call, chosen))
        if call.name:
            object_metadata.check_name(obj["metadata"], call.name)
        outcome = await self.insert(call, obj, chosen)
        return self.respond(call, outcome, 201)

    async def update(self, call: ResourceRequest) -> Response:
        """PUT to an object or to its status."""
        chosen = write_options.write_options(call.request, call.params, "UpdateOptions")
        kind = call.served.kind
        sent = await self._large.run(call.request, lambda: self._take(call, chosen))
        object_metadata.check_name(sent["metadata"], call.name)
        object_metadata.place(kind, sent["metadata"], call.namespace)
        revision = self._pinned(kind, sent)
        uid = str(sent["metadata"].get("uid") or "")
        used = False

        def fresh() -> Object:
            # A try may use up the object that was sent; the next one starts from the body again.
            nonlocal used
            if used:
                body = decoding.read(call.request, native=kind.native)
                return strict_decoding.take(kind, body, write_options.IGNORE, [])
            used = True
            return sent

        def change(live: Object) -> Any:
            if not revision and not kind.unconditional_update:
                problem = FieldError.invalid("metadata.resourceVersion", 0, "must be specified for an update")
                raise strict_decoding.invalid(kind, sent, [problem])
            object_metadata.check_preconditions(kind, live, uid=uid, revision=revision)
            return self.succeed(call, fresh(), live, chosen)

        try:
            outcome = await self.amend(call, change, chosen)
        except errors.StatusError as problem:
            if problem.code != 404 or not kind.create_on_update or call.subresource or revision:
                raise
            self._may_create(call)
            outcome = await self.insert(call, fresh(), chosen)
            return self.respond(call, outcome, 201)
        return self.respond(call, outcome, 200)

    def _take(self, call: ResourceRequest, chosen: WriteOptions) -> Object:
        """The object in the body of a call."""
        kind = call.served.kind
        body = decoding.read(call.request, native=kind.native)
        return strict_decoding.take(kind, body, chosen.validation, call.request.warnings)

    def insert(
        self, call: ResourceRequest, obj: Object, chosen: WriteOptions, *, tracked: bool = True
    ) -> Coroutine[Any, Any, WriteOutcome]:
        """Store a new object, however it came. ``tracked``: its fields are yet to be credited to its manager."""
        metadata = obj["metadata"]
        if metadata.get("name") or not metadata.get("generateName"):
            return self._insert(call, obj, chosen, tracked)
        return self._insert_generated(call, obj, chosen, tracked)

    async def _insert_generated(
        self, call: ResourceRequest, obj: Object, chosen: WriteOptions, tracked: bool
    ) -> WriteOutcome:
        metadata = obj["metadata"]
        for _ in range(_GENERATED_TRIES):
            named = {**metadata, "name": names.generate_name(metadata["generateName"], self._random)}
            try:
                return await self._insert(call, codec.copy({**obj, "metadata": named}), chosen, tracked)
            except errors.StatusError as problem:
                if problem.reason != "AlreadyExists":
                    raise
                taken = problem
        taken.message += ", the server was not able to generate a unique name for the object"
        taken.retry_after = 1
        raise taken

    async def _insert(
        self, call: ResourceRequest, obj: Object, chosen: WriteOptions, tracked: bool
    ) -> WriteOutcome:
        kind = call.served.kind
        object_metadata.begin(
            kind, obj, namespace=call.namespace, uid=self._uids.new(), now=self._clock.now()
        )
        self._tidy(call, obj["metadata"], None)
        call.strategy.prepare_create(call, obj)
        if tracked:
            await self._large.run(call.request, lambda: self._track(call, None, obj, chosen))
        call.strategy.complete(obj, None)
        if kind.unattended:
            unmanaged_kinds.mark(kind, obj)
            call.request.warnings.append(f"{kind.name}: {kind.unattended}")
        namespace = await self._admission.admit_create(call, obj)
        await self._large.run(call.request, lambda: self._check(call, obj, None, namespace))
        name = obj["metadata"]["name"]
        try:
            key = call.served.key(call.namespace, name)
            return await self._objects.create(call.served, key, obj, fence=call.fence, dry_run=chosen.dry_run)
        except Conflict as conflict:
            current = conflict.current
        terminating = current is not None and "deletionTimestamp" in codec.decode(current.value)["metadata"]
        raise errors.already_exists(kind.plural, kind.group, name, terminating=terminating)

    def succeed(
        self, call: ResourceRequest, new: Object, live: Object, chosen: WriteOptions, *, tracked: bool = True
    ) -> Any:
        """The change from the live object to the one sent, with all that the server adds; or its removal."""
        kind = call.served.kind
        strategy = call.strategy
        if call.subresource in strategy.status_subresources:
            new = strategy.prepare_status(call, new, live, self._clock.now())
            new = object_metadata.carry_status(kind, new, live)
        else:
            object_metadata.carry(kind, new, live)
            self._tidy(call, new["metadata"], live["metadata"])
        if tracked:
            self._track(call, live, new, chosen)
        if call.subresource in ("", "scale"):
            on_loop(strategy.complete, new, live)
            if new.get("spec") != live.get("spec"):
                # Whoever writes back what was read changes nothing.
                unmanaged_kinds.mark(kind, new)
            object_metadata.advance(kind, new, live)
        self._check(call, new, live, None)
        return ObjectRemoval(new) if object_metadata.ends(kind, new, live) else new

    async def delete(self, call: ResourceRequest) -> Response:
        """DELETE of an object."""
        chosen = await self._large.run(
            call.request, lambda: write_options.delete_options(call.request, call.params)
        )
        self._admission.admit_delete(call)
        return self.respond_deleted(call, await self.remove(call, chosen), chosen)

    async def remove(self, call: ResourceRequest, chosen: ParsedDeleteOptions) -> WriteOutcome:
        """Delete an object, or mark it as going."""
        change = object_metadata.deletion(call.served.kind, chosen, self._clock.now(), call.strategy)
        return await self._objects.amend(
            call.served, call.namespace, call.name, change, fence=call.fence, dry_run=chosen.dry_run
        )

    async def delete_each(self, call: ResourceRequest, keys: list[str]) -> None:
        """DELETE of a collection: each object on its own, as if deleted by name. One that is gone is no failure."""
        chosen = await self._large.run(
            call.request, lambda: write_options.delete_options(call.request, call.params)
        )
        kind = call.served.kind
        for key in keys:
            namespace, _, name = key.removeprefix(call.served.prefix()).rpartition("/")
            one = msgspec.structs.replace(call, namespace=namespace, name=name)
            self._admission.admit_delete(one)
            try:
                await self.remove(one, chosen)
            except errors.StatusError as problem:
                if problem.code != 404:
                    raise errors.StatusError(
                        problem.code,
                        problem.reason,
                        f"{errors.qualified(kind.plural, kind.group)} {name!r} was not deleted: {problem.message}",
                        causes=problem.causes,
                    ) from None

    def respond(self, call: ResourceRequest, outcome: WriteOutcome, status: int) -> Response:
        """The object as it stands after a write, in the version asked for."""
        return render(call.request, call.served, outcome.value, outcome.revision, status)

    def respond_deleted(
        self, call: ResourceRequest, outcome: WriteOutcome, chosen: ParsedDeleteOptions
    ) -> Response:
        """A Status for what is gone, the object for what is going."""
        if not outcome.removed:
            status = 202 if chosen.orphan_dependents is False else 200
            return self.respond(call, outcome, status)
        kind = call.served.kind
        metadata = codec.decode(outcome.value)["metadata"]
        details = {"name": call.name, "kind": kind.plural, "uid": metadata["uid"]}
        if kind.group:
            details["group"] = kind.group
        body = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Success",
            "details": details,
        }
        return Response(200, codec.dump(body))

    def amend(
        self, call: ResourceRequest, change: Callable[[Object], Any], chosen: WriteOptions
    ) -> Coroutine[Any, Any, WriteOutcome]:
        """Change the object of a call; see ``ObjectStorage.amend``."""
        warnings = call.request.warnings
        before = len(warnings)

        def attempt(live: Object) -> Any:
            # What was said of an attempt that did not hold says nothing of the next.
            del warnings[before:]
            return change(live)

        return self._objects.amend(
            call.served,
            call.namespace,
            call.name,
            attempt,
            fence=call.fence,
            dry_run=chosen.dry_run,
            request=call.request,
        )

    def _pinned(self, kind: Kind, sent: Object) -> str:
        """The revision that an update is made against, or the empty string."""
        revision = str(sent["metadata"].get("resourceVersion") or "")
        if revision and not revision.isdecimal():
            problem = FieldError.invalid("metadata.resourceVersion", revision, "must be a decimal number")
            raise strict_decoding.invalid(kind, sent, [problem])
        return revision

    def _tidy(self, call: ResourceRequest, metadata: dict[str, Any], live: dict[str, Any] | None) -> None:
        warnings = call.request.warnings
        warnings += names.dedupe_owner_references(metadata)
        if not call.served.kind.native:
            warnings += names.finalizer_warnings(metadata, live)

    def _track(self, call: ResourceRequest, live: Object | None, new: Object, chosen: WriteOptions) -> None:
        managed_fields.track_update(
            live,
            new,
            schema=call.served.kind.schema,
            api_version=call.served.kind.api_version,
            manager=chosen.manager,
            subresource=call.subresource,
            now=format_time(self._clock.now()),
            reset=reset_fields(call),
            served=call.served.resource.schemas,
            convert=codec.versions_of(call.served.resource),
        )

    def _check(
        self, call: ResourceRequest, new: Object, live: Object | None, namespace: bytes | None
    ) -> None:
        """Raise for what may not be written."""
        self._admission.authorize(call, new, live)
        self._validate(call, new, live, namespace)

    def _validate(
        self, call: ResourceRequest, new: Object, live: Object | None, namespace: bytes | None
    ) -> None:
        kind = call.served.kind
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
            call.request.warnings += self._admission.warnings(kind, new)
        if not call.subresource:
            call.request.warnings += islice(kind.warnings(new, live), MOST_PROBLEMS)


def reset_fields(call: ResourceRequest) -> tuple[str, ...]:
    """Top-level fields that a write through this endpoint can't set, so that no one is credited with them."""
    kind = call.served.kind
    if call.subresource in call.strategy.status_subresources:
        written = {"status", "apiVersion", "kind"}
        if kind.status_metadata and call.subresource == "status":
            written.add("metadata")
        return tuple(each for each in kind.schema.properties if each not in written)
    return ("status",) if kind.status else ()
