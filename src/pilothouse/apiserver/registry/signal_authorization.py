"""Signals of update plans, on Nodes and ControlNodes: who may write them.

    rules:
    - apiGroups: [autopilot.k0sproject.io]
      resources: [plans]
      resourceNames: [autopilot]
      verbs: [signal]

A signal makes a machine replace its own program, so a user who may label nodes may not write one: that needs
the verb ``signal`` on the plan, which the controller-manager has. A machine reports its own progress there
(``restriction.node_writes``).
"""

from __future__ import annotations

from pilothouse.aio.worker_thread import on_loop
from pilothouse.api.k0s.signals import DATA_ANNOTATION, VERSION_ANNOTATION
from pilothouse.api.k0s.v1beta2 import GROUP, RUNNING_PLAN
from pilothouse.apiserver.authorization.authorizer import Attributes, Authorizer
from pilothouse.apiserver.authorization.restriction.restriction_authorizer import Restriction
from pilothouse.apiserver.endpoints.call import ResourceRequest
from pilothouse.apiserver.registry.strategy import Strategy
from pilothouse.meta import errors
from pilothouse.meta.kind import Object


class SignalAuthorization:
    """Decides about writes that change a signal."""

    def __init__(self, authorizer: Authorizer, restriction: Restriction) -> None:
        self._authorizer = authorizer
        self._restriction = restriction

    def check(self, call: ResourceRequest, new: Object, old: Object | None) -> None:
        """403 if the write changes a signal and the user may not."""
        if _signal(new) == _signal(old) or self._restriction.confines(call.request.user):
            return
        on_loop(self._demand, call, new)

    def _demand(self, call: ResourceRequest, new: Object) -> None:
        verb = Attributes("signal", group=GROUP, version="*", resource="plans", name=RUNNING_PLAN)
        if not self._authorizer.decide(call.request.user, verb).allowed:
            kind = call.served.kind
            raise errors.forbidden(
                kind.plural,
                kind.group,
                new["metadata"].get("name") or call.name,
                f"metadata.annotations[{DATA_ANNOTATION}]: needs the verb signal on plans.{GROUP} "
                f"{RUNNING_PLAN}; create a Plan instead",
            )


class ControlNodeStrategy(Strategy):
    def __init__(self, signals: SignalAuthorization) -> None:
        self._signals = signals

    def authorize(self, call: ResourceRequest, new: Object, old: Object | None) -> None:
        self._signals.check(call, new, old)


def _signal(obj: Object | None) -> tuple[str | None, str | None]:
    annotations = (obj["metadata"].get("annotations") or {}) if obj is not None else {}
    return annotations.get(VERSION_ANNOTATION), annotations.get(DATA_ANNOTATION)
