"""RuntimeClasses: there are none, so a pod that names one is refused as in Kubernetes."""

from __future__ import annotations

from pilothouse.api.kubernetes.pod_fields import ONE_RUNTIME
from pilothouse.apiserver.endpoints.call import ResourceRequest
from pilothouse.meta import errors
from pilothouse.meta.kind import Object


def check_runtime_class(
    call: ResourceRequest, new: Object, old: Object | None, namespace: bytes | None
) -> None:
    """403 for a pod that is created with a ``runtimeClassName``."""
    kind = call.served.kind
    if old is not None or kind.name != "Pod" or kind.group:
        return
    if (name := new["spec"].get("runtimeClassName")) is not None:
        detail = f'pod rejected: RuntimeClass "{name}" not found: {ONE_RUNTIME}'
        raise errors.forbidden("pods", "", new["metadata"].get("name") or "", detail)
