"""Functions to declare roles and bindings.

    cluster_role("pods-reader", verbs("get list", "pods pods/status"), verbs("get", "nodes", names="n1"))
    binding("pods-reader", group("dev"), service_account("t", "robot"))

Lists are words separated by spaces, and get sorted.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pilothouse.apiserver.authorization.rbac.grants import GROUP
from pilothouse.apiserver.authorization.rbac.rules import PolicyRule
from pilothouse.meta.kind import Object

AUTOUPDATE = "rbac.authorization.kubernetes.io/autoupdate"
"""Set to ``"false"`` on an object, it keeps the server from mending it."""
VIEW = "get list watch "
EDIT = "create delete deletecollection patch update "


def verbs(these: str, resources: str, api_group: str = "", *, names: str = "") -> PolicyRule:
    return PolicyRule(_words(these), (api_group,), _words(resources), _words(names))


def paths(these: str, urls: str) -> PolicyRule:
    """Verbs on non-resource paths."""
    return PolicyRule(_words(these), urls=_words(urls))


CREATE_EVENTS = PolicyRule(("create", "patch", "update"), ("", "events.k8s.io"), ("events",))


def cluster_role(name: str, *rules: PolicyRule, labels: Iterable[str] = ()) -> Object:
    """A ClusterRole with these labels, each ``"true"``."""
    return _role("ClusterRole", name, rules, labels)


def role(name: str, *rules: PolicyRule) -> Object:
    """A Role without a namespace."""
    return _role("Role", name, rules, ())


def binding(name: str, *subjects: dict[str, str], kind: str = "ClusterRole", role: str = "") -> Object:
    """A binding of the role of its name, unless another is named; of a Role, without a namespace."""
    return {
        "apiVersion": f"{GROUP}/v1",
        "kind": "ClusterRoleBinding" if kind == "ClusterRole" else "RoleBinding",
        "metadata": _metadata(name, ()),
        "roleRef": {"apiGroup": GROUP, "kind": kind, "name": role or name},
        **({"subjects": list(subjects)} if subjects else {}),
    }


def namespaced(obj: Object, namespace: str) -> Object:
    return {**obj, "metadata": {**obj["metadata"], "namespace": namespace}}


def user(name: str) -> dict[str, str]:
    return {"apiGroup": GROUP, "kind": "User", "name": name}


def group(name: str) -> dict[str, str]:
    return {"apiGroup": GROUP, "kind": "Group", "name": name}


def service_account(namespace: str, name: str) -> dict[str, str]:
    return {"kind": "ServiceAccount", "name": name, "namespace": namespace}


def _role(kind: str, name: str, rules: tuple[PolicyRule, ...], labels: Iterable[str]) -> Object:
    return {
        "apiVersion": f"{GROUP}/v1",
        "kind": kind,
        "metadata": _metadata(name, labels),
        **({"rules": [rule.write() for rule in rules]} if rules else {}),
    }


def _metadata(name: str, labels: Iterable[str]) -> dict[str, Any]:
    return {
        "name": name,
        "labels": {"kubernetes.io/bootstrapping": "rbac-defaults", **dict.fromkeys(labels, "true")},
        "annotations": {AUTOUPDATE: "true"},
    }


def _words(text: str) -> tuple[str, ...]:
    return tuple(sorted(text.split()))
