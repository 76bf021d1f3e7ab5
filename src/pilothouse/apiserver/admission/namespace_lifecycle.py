"""Namespaces: an absent or terminating one takes no objects, and those of the system stay."""

from __future__ import annotations

from pilothouse.apiserver.discovery.catalog import ROOT
from pilothouse.apiserver.endpoints.call import ResourceRequest
from pilothouse.apiserver.storage import codec
from pilothouse.apiserver.storage.objects import ObjectStorage
from pilothouse.meta import errors
from pilothouse.meta.kind import Object

PERMANENT_NAMESPACES = ("default", "kube-system", "kube-public")
"""There from the first start, and not to be deleted."""


class NamespaceLifecycle:
    def __init__(self, objects: ObjectStorage) -> None:
        self._objects = objects

    async def check_create(self, call: ResourceRequest, obj: Object) -> bytes:
        """The stored namespace of a new object; 404 or 403 if it accepts none."""
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

    def check_delete(self, call: ResourceRequest) -> None:
        """403 for a namespace that the system needs."""
        kind = call.served.kind
        if kind.name == "Namespace" and not kind.group and call.name in PERMANENT_NAMESPACES:
            raise errors.forbidden("namespaces", "", call.name, "this namespace may not be deleted")
