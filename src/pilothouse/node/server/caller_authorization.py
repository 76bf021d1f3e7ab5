"""Authenticates and authorizes callers of the node's server, by asking the API server.

    caller = await callers.identify(certificate, authorization)      # None if nobody can say who it is
    why = await callers.why_not(caller, "get", "/containerLogs/t/db-0/db")       # "" if they may

Whoever shows a certificate of the control plane's authority is whom it names. A token is shown to the API server, in a
TokenReview. What somebody may do is asked in a SubjectAccessReview about the Node, with the subresources that a kubelet
uses: ``nodes/metrics`` for figures, ``nodes/log`` for files, ``nodes/stats`` for summaries, ``nodes/proxy`` for the rest. The verb
follows from the HTTP method, except that a session in a container (exec and its kin) always needs ``create``.

Answers are kept for a while, as kubelets keep them. When the API server can't be asked, what is not known is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from typing import Any, Final, Generic, TypeVar

import msgspec

from pilothouse.api.kind_names import KindName
from pilothouse.api.kubernetes.kubelet_paths import opens_session, subresource_of
from pilothouse.base.clock import Clock
from pilothouse.client.api import Api
from pilothouse.client.transport import TransportError
from pilothouse.meta.errors import StatusError

TOKEN_REVIEW: Final = KindName("authentication.k8s.io", "v1", "TokenReview", "tokenreviews", namespaced=False)
ACCESS_REVIEW: Final = KindName(
    "authorization.k8s.io", "v1", "SubjectAccessReview", "subjectaccessreviews", namespaced=False
)
TOKEN_SECONDS: Final = 120.0
ALLOWED_SECONDS: Final = 300.0
REFUSED_SECONDS: Final = 30.0
_MOST_KEPT: Final = 1000
_VERBS: Final = {
    **dict.fromkeys(("GET", "HEAD", "OPTIONS"), "get"),
    "POST": "create",
    "PUT": "update",
    "PATCH": "patch",
    "DELETE": "delete",
}

T = TypeVar("T")


class Caller(msgspec.Struct, frozen=True):
    """Who asks."""

    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: tuple[tuple[str, tuple[str, ...]], ...] = ()


class APIServerUnreachable(Exception):
    """The API server can't be asked; the message says why."""


class _Kept(Generic[T]):
    """Answers that are good for a while."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._answers: dict[object, tuple[float, T]] = {}

    def get(self, key: object) -> T | None:
        until, answer = self._answers.get(key, (0.0, None))
        return answer if until > self._clock.monotonic() else None

    def put(self, key: object, answer: T, seconds: float) -> None:
        if len(self._answers) >= _MOST_KEPT:
            self._answers.clear()
        self._answers[key] = (self._clock.monotonic() + seconds, answer)


class CallerAuthorizer:
    """Authenticates callers, and authorizes their requests."""

    def __init__(self, api: Api, node: str, clock: Clock) -> None:
        self._api = api
        self._node = node
        self._tokens: _Kept[Caller] = _Kept(clock)
        self._rights: _Kept[str] = _Kept(clock)

    async def identify(self, certificate: Mapping[str, Any] | None, authorization: str) -> Caller | None:
        """The caller; None if the credentials are not valid. Raises ``APIServerUnreachable``."""
        if certificate and (caller := named_in(certificate)) is not None:
            return caller
        scheme, _, token = authorization.partition(" ")
        if scheme.lower() != "bearer" or not token.strip():
            return None
        return await self._bearer(token.strip())

    async def why_not(self, caller: Caller, method: str, path: str) -> str:
        """Why a request is forbidden; empty if it is allowed. Raises ``APIServerUnreachable``."""
        session = opens_session(path)
        verb = "create" if session else _VERBS.get(method, method.lower())
        subresource = subresource_of(path)
        key = (caller, verb, subresource, session)
        known = self._rights.get(key)
        if known is not None:
            return known
        asked = {
            "verb": verb,
            "version": "v1",
            "resource": "nodes",
            "subresource": subresource,
            "name": self._node,
        }
        spec = {
            "user": caller.name,
            "uid": caller.uid,
            "groups": list(caller.groups),
            "extra": {name: list(values) for name, values in caller.extra},
            "resourceAttributes": asked,
        }
        status = await self._review(ACCESS_REVIEW, spec)
        allowed = status.get("allowed") is True and not status.get("denied")
        why = "" if allowed else f"{caller.name} may not {verb} nodes/{subresource} of {self._node}"
        if why and session:
            why += ", which a session in a container needs, whatever the HTTP method"
        self._rights.put(key, why, ALLOWED_SECONDS if allowed else REFUSED_SECONDS)
        return why

    async def _bearer(self, token: str) -> Caller | None:
        key = sha256(token.encode("utf-8", "surrogateescape")).digest()
        if known := self._tokens.get(key):
            return known
        status = await self._review(TOKEN_REVIEW, {"token": token})
        user = status.get("user") or {}
        if status.get("authenticated") is not True or not user.get("username"):
            return None
        caller = Caller(
            user["username"],
            user.get("uid") or "",
            tuple(user.get("groups") or ()),
            tuple((name, tuple(values)) for name, values in sorted((user.get("extra") or {}).items())),
        )
        self._tokens.put(key, caller, TOKEN_SECONDS)
        return caller

    async def _review(self, noun: KindName, spec: Mapping[str, Any]) -> Mapping[str, Any]:
        body = {"apiVersion": noun.api_version, "kind": noun.kind, "metadata": {}, "spec": spec}
        try:
            answer = await self._api.create(noun, body)
        except (StatusError, TransportError) as problem:
            raise APIServerUnreachable(f"can't check authorization with the API server: {problem}") from None
        return answer.status


def named_in(certificate: Mapping[str, Any]) -> Caller | None:
    """The user and groups of a client certificate, as Kubernetes reads them; None if it names no user."""
    name, groups = "", []
    for relative in certificate.get("subject") or ():
        for attribute, value in relative:
            if attribute == "commonName":
                name = value
            elif attribute == "organizationName":
                groups.append(value)
    if not name:
        return None
    return Caller(name, groups=tuple(dict.fromkeys([*groups, "system:authenticated"])))
