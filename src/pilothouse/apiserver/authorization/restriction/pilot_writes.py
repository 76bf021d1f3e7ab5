"""What a pilot's write may contain. All else is refused.

* The status of its Pilot.
* Its lease and its cluster's leader lease: any ``spec``. Labels grant access and owners control lifetime, so
  a new lease has at most its Pilot's labels and its own owners, and neither changes later.
* Events about its Pilot, its pod, its cluster or its leases.
"""

from __future__ import annotations

from typing import Any, NoReturn

from pilothouse.apiserver.authorization.restriction.identity import PodBoundUser
from pilothouse.apiserver.authorization.restriction.pilot_index import PilotIndex, own_lease
from pilothouse.apiserver.endpoints.call import ResourceRequest
from pilothouse.meta import errors
from pilothouse.meta.kind import Object

_KEPT = ("labels", "ownerReferences", "finalizers")


class PilotWrites:
    def __init__(self, pilots: PilotIndex) -> None:
        self._pilots = pilots

    def check(self, bound: PodBoundUser, call: ResourceRequest, new: Object, old: Object | None) -> None:
        kind = call.served.kind
        match kind.group, kind.plural, call.subresource:
            case "navigator.jetstack.io", "pilots", "status":
                if call.name != bound.pod or old is None or new.get("spec") != old.get("spec"):
                    _refuse(call, new, "a pilot writes the status of its own Pilot only")
                check_kept(call, new, old)
            case "coordination.k8s.io", "leases", "":
                self._check_lease(bound, call, new, old)
            case "" | "events.k8s.io", "events", "":
                for event in (new, old) if old is not None else (new,):
                    self._check_event(bound, call, event)
            case _:
                _refuse(call, new, "pilots don't write this")

    def _check_lease(
        self, bound: PodBoundUser, call: ResourceRequest, new: Object, old: Object | None
    ) -> None:
        pilot = self._pilots.find(bound.namespace, bound.pod)
        cluster = pilot.cluster if pilot is not None else None
        own = [own_lease(bound.pod), *([cluster.leader_lease] if cluster is not None else [])]
        metadata = new["metadata"]
        if pilot is None or metadata.get("name") not in own:
            _refuse(call, new, f"a pilot's leases are {' and '.join(own)}")
        if old is not None:
            check_kept(call, new, old)
            return
        for label, value in (metadata.get("labels") or {}).items():
            if pilot.labels.get(label) != value:
                _refuse(
                    call, new, f'metadata.labels: its Pilot has no label "{label}" with the value "{value}"'
                )
        owners = {pilot.uid, cluster.uid if cluster is not None else ""}
        for index, owner in enumerate(metadata.get("ownerReferences") or ()):
            if owner.get("uid") not in owners:
                detail = f"metadata.ownerReferences[{index}]: may name its own Pilot or cluster only"
                _refuse(call, new, detail)
        if metadata.get("finalizers"):
            _refuse(call, new, "metadata.finalizers: a pilot sets none")

    def _check_event(self, bound: PodBoundUser, call: ResourceRequest, event: Object) -> None:
        field = "regarding" if "regarding" in event else "involvedObject"
        about: dict[str, Any] = event.get(field) or {}
        pilot = self._pilots.find(bound.namespace, bound.pod)
        cluster = pilot.cluster if pilot is not None else None
        own = {("Pilot", bound.pod), ("Pod", bound.pod), ("Lease", own_lease(bound.pod))}
        if cluster is not None:
            own |= {(cluster.noun.kind, cluster.name), ("Lease", cluster.leader_lease)}
        said = (about.get("kind"), about.get("name"))
        if about.get("namespace") != bound.namespace or said not in own:
            _refuse(
                call,
                event,
                f"{field}: a pilot's events are about its own Pilot, pod, leases or cluster, not about "
                f'{about.get("kind") or "nothing"} "{about.get("name") or ""}"',
            )


def check_kept(call: ResourceRequest, new: Object, old: Object) -> None:
    """403 for a write that changes labels, owners or finalizers."""
    for field in _KEPT:
        if (new["metadata"].get(field) or None) != (old["metadata"].get(field) or None):
            _refuse(call, new, f"metadata.{field}: may not be changed by a pilot or node")


def _refuse(call: ResourceRequest, obj: Object, detail: str) -> NoReturn:
    kind = call.served.kind
    raise errors.forbidden(kind.plural, kind.group, obj["metadata"].get("name") or call.name, detail)
