"""Prevention of privilege escalation, as in Kubernetes.

Writing a role needs every permission in it, or ``escalate``; writing a binding every permission of its role,
or ``bind``; an aggregated role may collect anything, so it needs all permissions. ``system:masters`` are
exempt, and so are changes of owners and finalizers alone, for garbage collection.
"""

from __future__ import annotations

from typing import Protocol

from pilothouse.aio.worker_thread import on_loop
from pilothouse.apiserver.authorization.authorizer import MASTERS, Attributes, Authorizer
from pilothouse.apiserver.authorization.rbac.coverage import (
    MOST_ATOMS,
    count_atoms,
    describe,
    missing,
    quoted,
)
from pilothouse.apiserver.authorization.rbac.grants import GROUP
from pilothouse.apiserver.authorization.rbac.rules import ANY, PolicyRule, read_rules
from pilothouse.apiserver.endpoints.call import ResourceRequest
from pilothouse.apiserver.server.messages import User
from pilothouse.meta import errors
from pilothouse.meta.fields import FieldError
from pilothouse.meta.kind import Object

_EVERYTHING = (PolicyRule((ANY,), (ANY,), (ANY,)), PolicyRule((ANY,), urls=(ANY,)))
_NOT_ASKED_ABOUT = ("ownerReferences", "finalizers", "managedFields", "selfLink", "resourceVersion")
_PLURALS = {"Role": "roles", "ClusterRole": "clusterroles"}


class RuleSource(Protocol):
    def rules_of(self, user: User, namespace: str) -> tuple[list[PolicyRule], list[str]]:
        """A user's rules in a namespace, and which roles could not be found."""

    def role(self, namespace: str, name: str) -> tuple[PolicyRule, ...] | None: ...


class Escalation:
    def __init__(self, authorizer: Authorizer, holdings: RuleSource) -> None:
        self._authorizer = authorizer
        self._holdings = holdings

    def check(self, call: ResourceRequest, new: Object, old: Object | None) -> None:
        """403 if the writer would grant more than they have. ``old`` is None for a new object."""
        kind = call.served.kind
        if kind.group != GROUP or MASTERS in call.request.user.groups:
            return
        if old is not None and _substance(new) == _substance(old):
            return
        if kind.name in _PLURALS:
            self._check_role(call, new, old)
        else:
            self._check_binding(call, new)

    def _check_role(self, call: ResourceRequest, new: Object, old: Object | None) -> None:
        kind = call.served.kind
        if self._may(call, "escalate", kind.plural, call.name):
            return
        self._hold(call, new, read_rules(new))
        if _aggregates(new) or (old is not None and _aggregates(old)):
            held, _ = on_loop(self._holdings.rules_of, call.request.user, call.namespace)
            if missing(held, _EVERYTHING):
                detail = "must have cluster-admin privileges to use the aggregationRule"
                raise errors.forbidden(kind.plural, GROUP, new["metadata"].get("name", ""), detail)

    def _check_binding(self, call: ResourceRequest, new: Object) -> None:
        reference = new.get("roleRef") or {}
        plural, name = _PLURALS.get(reference.get("kind", "")), reference.get("name", "")
        if plural is None or not name or (plural == "roles" and not call.namespace):
            return  # The kind's own validation refuses it.
        if self._may(call, "bind", plural, name):
            return
        rules = on_loop(self._holdings.role, call.namespace if plural == "roles" else "", name)
        if rules is None:
            raise errors.not_found(plural, GROUP, name)
        self._hold(call, new, rules)

    def _may(self, call: ResourceRequest, verb: str, plural: str, name: str) -> bool:
        attributes = Attributes(
            verb, group=GROUP, version=ANY, resource=plural, namespace=call.namespace, name=name
        )
        return on_loop(self._authorizer.decide, call.request.user, attributes).allowed

    def _hold(self, call: ResourceRequest, new: Object, rules: tuple[PolicyRule, ...]) -> None:
        user = call.request.user
        if (count := count_atoms(rules)) > MOST_ATOMS:
            detail = (
                f"amounts to {count} permissions (verbs × apiGroups × resources × resourceNames); "
                f"at most {MOST_ATOMS} can be checked"
            )
            problem = FieldError.forbidden("rules", detail)
            raise errors.invalid(call.served.kind.name, GROUP, new["metadata"].get("name", ""), [problem])
        held, absences = on_loop(self._holdings.rules_of, user, call.namespace)
        lacking = missing(held, rules)
        if not lacking:
            return
        detail = (
            f'user "{user.name}" (groups={quoted(user.groups)}) is attempting to grant RBAC permissions '
            f"not currently held:\n{describe(lacking)}"
        )
        if absences:
            detail += f"; resolution errors: [{', '.join(absences)}]"
        raise errors.forbidden(call.served.kind.plural, GROUP, new["metadata"].get("name", ""), detail)


def _aggregates(role: Object) -> bool:
    return bool((role.get("aggregationRule") or {}).get("clusterRoleSelectors"))


def _substance(obj: Object) -> Object:
    """An object without the fields that are not checked."""
    metadata = {name: value for name, value in obj["metadata"].items() if name not in _NOT_ASKED_ABOUT}
    return {**obj, "metadata": metadata}
