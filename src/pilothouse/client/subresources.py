"""Subresources: scale, eviction, binding, token.

    await scale(api, StatefulSet, "db", "default", 5)
    await evict(api, "db-0", "default", uid=pod.uid)
    await bind(api, "db-0", "default", "node-1")
    token, expires = await mint_token(api, "db", "default", seconds=3600, pod=pod)

For ``status`` the verbs of ``Api`` take a parameter.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Unpack

import msgspec

from pilothouse.api.disruption_target import EVICTED_BECAUSE, EVICTED_BY
from pilothouse.api.kind_names import KindName, Pod, ServiceAccount
from pilothouse.api.objects import Object, Tree
from pilothouse.client.api import DEADLINE, JSON, Api, Patch, WriteOptionsSent, decoded, deletion, encoded
from pilothouse.client.transport import ClientRequest


class DesiredReplicas(msgspec.Struct, frozen=True):
    replicas: int = 0


class ObservedReplicas(msgspec.Struct, frozen=True):
    replicas: int = 0
    selector: str = ""


class ScaleObject(msgspec.Struct, frozen=True):
    spec: DesiredReplicas = DesiredReplicas()
    status: ObservedReplicas = ObservedReplicas()


class Token(NamedTuple):
    """A token, and when it expires as RFC 3339 text."""

    token: str
    expires: str


class _TokenStatus(msgspec.Struct, rename="camel"):
    token: str
    expiration_timestamp: str


class _TokenRequest(msgspec.Struct):
    status: _TokenStatus


async def scale(
    api: Api,
    noun: KindName,
    name: str,
    namespace: str,
    replicas: int | None = None,
    **options: Unpack[WriteOptionsSent],
) -> ScaleObject:
    """The scale; with ``replicas``, after setting it."""
    path = noun.path(namespace, name, "scale")
    if replicas is None:
        answer = await api.read(ClientRequest("GET", path), options.get("deadline", DEADLINE))
    else:
        content = encoded({"spec": {"replicas": replicas}})
        answer = await api.write("PATCH", path, content, Patch.MERGE, options)
    return decoded(answer, ScaleObject)


async def evict(
    api: Api,
    name: str,
    namespace: str,
    *,
    uid: str = "",
    grace: int | None = None,
    by: str = "",
    because: str = "",
    **options: Unpack[WriteOptionsSent],
) -> None:
    """Evict a pod, if its disruption budget allows it; else 429 with the cause ``DisruptionBudget``.

    ``by`` and ``because`` say who evicts it, and why.
    """
    metadata: Tree = {"name": name, "namespace": namespace}
    if said := {key: text for key, text in ((EVICTED_BY, by), (EVICTED_BECAUSE, because)) if text}:
        metadata["annotations"] = said
    body = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": metadata,
        "deleteOptions": deletion(uid, "", "", grace),
    }
    await api.write("POST", Pod.path(namespace, name, "eviction"), encoded(body), JSON, options)


async def bind(
    api: Api, name: str, namespace: str, node: str, *, uid: str = "", **options: Unpack[WriteOptionsSent]
) -> None:
    """Assign a pod to a node."""
    named = {"name": name, "namespace": namespace}
    body = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {**named, "uid": uid} if uid else named,
        "target": {"apiVersion": "v1", "kind": "Node", "name": node},
    }
    await api.write("POST", Pod.path(namespace, name, "binding"), encoded(body), JSON, options)


async def mint_token(
    api: Api,
    account: str,
    namespace: str,
    *,
    audiences: Sequence[str] = (),
    seconds: int = 3600,
    pod: Object | None = None,
    deadline: float = DEADLINE,
) -> Token:
    """A token of a service account; with ``pod``, one that is valid only while that pod exists."""
    spec: Tree = {"audiences": list(audiences), "expirationSeconds": seconds}
    if pod is not None:
        spec["boundObjectRef"] = {"apiVersion": "v1", "kind": "Pod", "name": pod.name, "uid": pod.uid}
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
    path = ServiceAccount.path(namespace, account, "token")
    answer = await api.write("POST", path, encoded(body), JSON, {"deadline": deadline})
    status = decoded(answer, _TokenRequest).status
    return Token(status.token, status.expiration_timestamp)
