"""ActionApprovals: who may approve and decline, and the record of who did.

    rules:
    - apiGroups: [autopilot.libopenstorage.org]
      resources: [autopilotrules]
      resourceNames: [grow-postgres]
      verbs: [approve]

The permission to write ActionApprovals is not enough to decide one: that needs the verb ``approve`` on the
rule that asks, in the approval's namespace or everywhere. The server records the user and the time. A client
that may write the status, as the rules' engine may, can withdraw the request (``canceled``) or make it again.
"""

from __future__ import annotations

from typing import Any

from pilothouse.aio.worker_thread import on_loop
from pilothouse.api.openstorage.v1alpha1 import GROUP
from pilothouse.apiserver.authorization.authorizer import Attributes, Authorizer
from pilothouse.apiserver.endpoints.call import ResourceRequest
from pilothouse.apiserver.registry.strategy import Strategy
from pilothouse.base.clock import Clock
from pilothouse.base.rfc3339 import format_time
from pilothouse.meta import errors
from pilothouse.meta.kind import Object

_DECIDED = ("approved", "declined")
_RECORD = ("decidedBy", "decidedAt")


class ActionApprovalStrategy(Strategy):
    def __init__(self, authorizer: Authorizer, clock: Clock) -> None:
        self._authorizer = authorizer
        self._clock = clock

    def prepare_status(self, call: ResourceRequest, sent: Object, live: Object, now: float) -> Object:
        """All but the record of the decision, which is the server's."""
        status = {name: value for name, value in _status(sent).items() if name not in _RECORD}
        status |= {name: value for name, value in _status(live).items() if name in _RECORD}
        return {**sent, "status": status}

    def record(self, call: ResourceRequest, new: Object, old: Object | None) -> None:
        """Record who decides, and when; an approval that is requested again is undecided."""
        state = _state(new)
        if old is not None and state == _state(old):
            return
        status = {name: value for name, value in _status(new).items() if name not in _RECORD}
        if state in _DECIDED:
            status |= {"decidedBy": call.request.user.name, "decidedAt": format_time(self._clock.now())}
        if status or "status" in new:
            new["status"] = status

    def authorize(self, call: ResourceRequest, new: Object, old: Object | None) -> None:
        """403 if the user may not decide."""
        on_loop(self._authorize, call, new, old)

    def _authorize(self, call: ResourceRequest, new: Object, old: Object | None) -> None:
        state = _state(new)
        if old is None:
            if state != "pending":
                self._demand(call, new, "", state)
        elif new.get("spec") != old.get("spec"):
            decided = state in _DECIDED and state != _state(old)
            if decided or not self._may_write_status(call):
                self._demand(call, new, _rule(old), state)

    def _demand(self, call: ResourceRequest, new: Object, rule: str, state: str) -> None:
        needed = Attributes(
            "approve",
            group=GROUP,
            version="*",
            resource="autopilotrules",
            name=rule,
            namespace=call.namespace,
        )
        if not self._authorizer.decide(call.request.user, needed).allowed:
            kind = call.served.kind
            which = rule or "of every name"
            raise errors.forbidden(
                kind.plural,
                kind.group,
                new["metadata"].get("name") or call.name,
                f"spec.approvalState: {state}: needs the verb approve on autopilotrules.{GROUP} {which}",
            )

    def _may_write_status(self, call: ResourceRequest) -> bool:
        needed = Attributes(
            "update",
            group=GROUP,
            version="*",
            resource=call.served.kind.plural,
            subresource="status",
            namespace=call.namespace,
            name=call.name,
        )
        return self._authorizer.decide(call.request.user, needed).allowed


def _state(approval: Object) -> str:
    spec = approval.get("spec")
    return str(spec.get("approvalState") or "pending") if isinstance(spec, dict) else "pending"


def _status(approval: Object) -> dict[str, Any]:
    found = approval.get("status")
    return found if isinstance(found, dict) else {}


def _rule(approval: Object) -> str:
    """The name of the rule that asks; empty if the engine has not written it."""
    found = _status(approval).get("Rule")
    return str(found.get("Name") or "") if isinstance(found, dict) else ""
