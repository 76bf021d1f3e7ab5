"""Roles, bindings and questions about rights, in few words.

    cluster_role("reader", rule("get list", "pods"))
    role("t", "editor", rule("update", "pods/status", names="a b"))
    bind("t", "b", "Role/editor", "User/alice", "Group/dev", "ServiceAccount/t/robot")
    bind("", "b", "ClusterRole/reader", "Group/dev")
    access_review("alice", "get", "pods/status", groups=["dev"], namespace="t", name="a")

Each word of a text is a value; an empty namespace means the cluster's.
"""

from __future__ import annotations

from typing import Any

Json = dict[str, Any]

GROUP = "rbac.authorization.k8s.io"
API = f"/apis/{GROUP}/v1"
ACCESS = "/apis/authorization.k8s.io/v1"
SELF_ACCESS = f"{ACCESS}/selfsubjectaccessreviews"
SUBJECT_ACCESS = f"{ACCESS}/subjectaccessreviews"


def rule(verbs: str, resources: str, group: str = "", *, names: str = "") -> Json:
    given = {"verbs": verbs.split(), "apiGroups": [group], "resources": resources.split()}
    return {**given, "resourceNames": names.split()} if names else given


def paths(verbs: str, urls: str) -> Json:
    return {"verbs": verbs.split(), "nonResourceURLs": urls.split()}


def role(namespace: str, name: str, *rules: Json) -> Json:
    return _object("Role", namespace, name, rules=list(rules))


def cluster_role(name: str, *rules: Json, labels: Json | None = None, selects: Json | None = None) -> Json:
    made = _object("ClusterRole", "", name, rules=list(rules))
    if labels:
        made["metadata"]["labels"] = labels
    if selects:
        made["aggregationRule"] = {"clusterRoleSelectors": [{"matchLabels": selects}]}
    return made


def bind(namespace: str, name: str, to: str, *subjects: str) -> Json:
    """A RoleBinding, or without a namespace a ClusterRoleBinding."""
    kind, _, role_name = to.partition("/")
    return _object(
        "RoleBinding" if namespace else "ClusterRoleBinding",
        namespace,
        name,
        roleRef={"apiGroup": GROUP, "kind": kind, "name": role_name},
        subjects=[_subject(each) for each in subjects],
    )


def place(obj: Json) -> str:
    """The collection that an object belongs into."""
    namespace = obj["metadata"].get("namespace")
    plural = obj["kind"].lower() + "s"
    return f"{API}/namespaces/{namespace}/{plural}" if namespace else f"{API}/{plural}"


def access_review(user: str, verb: str, what: str, *, groups: list[str] | None = None, **more: str) -> Json:
    """A SubjectAccessReview about a path, or about `resource/subresource`."""
    spec: Json = {"user": user, "groups": groups or []}
    return {"spec": {**spec, **self_review(verb, what, **more)["spec"]}}


def self_review(verb: str, what: str, **more: str) -> Json:
    """A SelfSubjectAccessReview about a path, or about `resource/subresource`."""
    if what.startswith("/"):
        return {"spec": {"nonResourceAttributes": {"verb": verb, "path": what}}}
    resource, _, subresource = what.partition("/")
    asked = {"verb": verb, "resource": resource, "subresource": subresource, **more}
    return {"spec": {"resourceAttributes": {key: value for key, value in asked.items() if value}}}


def _object(kind: str, namespace: str, name: str, **content: Any) -> Json:
    metadata = {"name": name, "namespace": namespace} if namespace else {"name": name}
    return {"apiVersion": f"{GROUP}/v1", "kind": kind, "metadata": metadata, **content}


def _subject(text: str) -> Json:
    kind, _, name = text.partition("/")
    if kind == "ServiceAccount":
        namespace, _, name = name.partition("/")
        return {"kind": kind, "namespace": namespace, "name": name}
    return {"kind": kind, "name": name, "apiGroup": GROUP}
