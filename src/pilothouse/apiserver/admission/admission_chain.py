"""The admission plugins and their order: a plugin returns at once for kinds that it does not handle.

On create: the state of the namespace, then ``mutating``. Before validation: ``authorizing``, whether the user
may write this content. After validation: ``validating``, the policies. On delete: objects that must stay.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence

from pilothouse.apiserver.admission.namespace_lifecycle import NamespaceLifecycle
from pilothouse.apiserver.endpoints.call import ResourceRequest
from pilothouse.meta.fields import FieldError
from pilothouse.meta.kind import Kind, Object

Refusals = Callable[[Kind, Object], Iterable[FieldError]]
"""The fields of an object that are valid Kubernetes and can't be honoured here."""
FieldWarnings = Callable[[Kind, Object], Iterable[str]]
"""A warning for each field of an object that is stored and has no effect here."""
MutatingPlugin = Callable[[ResourceRequest, Object], Awaitable[None]]
"""Adds to an object that is created what follows from other objects, or raises to refuse it."""
AuthorizingPlugin = Callable[[ResourceRequest, Object, Object | None], None]
"""Raises to refuse a write: the request, the object as it would be, and as it was (None on create)."""
ValidatingPlugin = Callable[[ResourceRequest, Object, Object | None, bytes | None], None]
"""The same, with the namespace as it is stored where the caller has it."""


class AdmissionChain:
    def __init__(
        self,
        lifecycle: NamespaceLifecycle,
        *,
        mutating: Sequence[MutatingPlugin],
        authorizing: Sequence[AuthorizingPlugin],
        validating: Sequence[ValidatingPlugin],
        refusals: Refusals,
        warnings: FieldWarnings,
    ) -> None:
        self._lifecycle = lifecycle
        self._mutating = tuple(mutating)
        self._authorizing = tuple(authorizing)
        self._validating = tuple(validating)
        self._refusals = refusals
        self.warnings = warnings

    async def admit_create(self, call: ResourceRequest, obj: Object) -> bytes | None:
        """Mutate an object that is created; returns its stored namespace, if it has one."""
        namespace = await self._lifecycle.check_create(call, obj) if call.served.kind.namespaced else None
        for plugin in self._mutating:
            await plugin(call, obj)
        return namespace

    def authorize(self, call: ResourceRequest, new: Object, old: Object | None) -> None:
        """Raise if the user may not write this content."""
        for plugin in self._authorizing:
            plugin(call, new, old)
        call.strategy.authorize(call, new, old)

    def admit_valid(
        self, call: ResourceRequest, new: Object, old: Object | None, namespace: bytes | None
    ) -> Iterable[FieldError]:
        """Raise for a valid object that a policy refuses; returns the fields that are not supported."""
        for plugin in self._validating:
            plugin(call, new, old, namespace)
        return self._refusals(call.served.kind, new)

    def admit_delete(self, call: ResourceRequest) -> None:
        """Raise for an object that must stay."""
        self._lifecycle.check_delete(call)
