"""What a write must pass besides its own kind's rules: the state of its namespace, and what this installation can do."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable

from pilothouse.api.kubernetes.pod_fields import ONE_RUNTIME
from pilothouse.apiserver.admission.pod_security.admission import PodSecurity
from pilothouse.apiserver.discovery.catalog import ROOT
from pilothouse.apiserver.endpoints.call import ResourceRequest
from pilothouse.apiserver.storage import codec
from pilothouse.apiserver.storage.objects import ObjectStorage
from pilothouse.meta import errors
from pilothouse.meta.fields import FieldError
from pilothouse.meta.kind import Kind, Object

Refusals = Callable[[Kind, Object], Iterable[FieldError]]
WriteCheck = Callable[[ResourceRequest, Object, Object | None], None]
"""Raises to refuse a write: the call, the object as it would be, and as it was (None for one that is new)."""
Completion = Callable[[ResourceRequest, Object], Awaitable[None]]
"""Adds to a new object what follows from other objects, or raises to refuse it."""
PERMANENT_NAMESPACES = ("default", "kube-system", "kube-public")
"""There from the first start, and not to be deleted."""


class AdmissionChain:
    """The checks, in their order."""

    def __init__(
        self,
        objects: ObjectStorage,
        refusals: Refusals,
        complete: Completion,
        checks: Iterable[WriteCheck],
        pod_security: PodSecurity,
    ) -> None:
        self._objects = objects
        self._refusals = refusals
        self._complete = complete
        self._checks = tuple(checks)
        self._pod_security = pod_security

    async def admit_create(self, call: ResourceRequest, obj: Object) -> bytes | None:
        """Nothing is born into a namespace that doesn't exist or is going away.

        Returns the namespace as it is stored; None where the kind has none.
        """
        namespace = await self._check_namespace(call, obj) if call.served.kind.namespaced else None
        await self._complete(call, obj)
        return namespace

    async def _check_namespace(self, call: ResourceRequest, obj: Object) -> bytes:
        kind = call.served.kind
        found = await self._objects.glance(f"{ROOT}namespaces/{call.namespace}")
        if found is None:
            raise errors.not_found("namespaces", "", call.namespace)
        if b'"phase":"Terminating"' not in found.value:
            return found.value
        namespace = codec.decode(found.value)
        if namespace.get("status", {}).get("phase") == "Terminating":
            name = obj["metadata"].get("name") or ""
            because = f"because it is being terminated: namespace {call.namespace} is being terminated"
            cause = errors.StatusCauseDetail(
                "NamespaceTerminating",
                f"namespace {call.namespace} is being terminated",
                "metadata.namespace",
            )
            detail = f"unable to create new content in namespace {call.namespace} {because}"
            raise errors.forbidden(kind.plural, kind.group, name, detail, causes=[cause])
        return found.value

    def admit_write(self, call: ResourceRequest, new: Object, old: Object | None) -> None:
        """Nobody hands on rights that they don't have, or writes what is beyond their scope."""
        for check in self._checks:
            check(call, new, old)

    def admit_pod_security(
        self, call: ResourceRequest, new: Object, old: Object | None, namespace: bytes | None
    ) -> None:
        """Hold a pod against the policy of its namespace. Comes after validation, as in Kubernetes."""
        self._pod_security.admit(call, new, old, namespace)

    def admit_runtime_class(self, call: ResourceRequest, new: Object, old: Object | None) -> None:
        """A pod that asks for a RuntimeClass is refused as one that asks for an absent one: there are none."""
        kind = call.served.kind
        if old is not None or kind.name != "Pod" or kind.group:
            return
        if (name := new["spec"].get("runtimeClassName")) is not None:
            detail = f'pod rejected: RuntimeClass "{name}" not found: {ONE_RUNTIME}'
            raise errors.forbidden("pods", "", new["metadata"].get("name") or "", detail)

    def admit_delete(self, call: ResourceRequest) -> None:
        """The namespaces that the system needs stay."""
        if (
            call.served.kind.name == "Namespace"
            and not call.served.kind.group
            and call.name in PERMANENT_NAMESPACES
        ):
            raise errors.forbidden("namespaces", "", call.name, "this namespace may not be deleted")

    def refusals(self, kind: Kind, obj: Object) -> Iterable[FieldError]:
        """Fields that are valid Kubernetes but can't be honoured here."""
        return self._refusals(kind, obj)
