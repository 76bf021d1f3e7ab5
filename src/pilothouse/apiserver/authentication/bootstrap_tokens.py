"""Bootstrap tokens: a new machine authenticates with one to request its first certificate.

    tokens = BootstrapTokens(catalog, cache, objects, clock)
    tokens.review("abcdef.0123456789abcdef", (AUDIENCE,))   # system:bootstrap:abcdef
    await tokens.spend("abcdef", "csr-x7k2p", requested)        # "" the first time, else why not

A token is a Secret of type ``bootstrap.kubernetes.io/token`` in ``kube-system``, as kubeadm creates them.
Unlike in Kubernetes it is good for one certificate: before signing, request name, node and a hash of the
request are written into the Secret by compare-and-swap, and every other request of the token fails. It still
authenticates for a few minutes, to fetch the certificate. ``node-name`` limits a token to one node; the name
is in the user's ``extra``.
"""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Iterator, Mapping
from hashlib import sha256
from hmac import compare_digest
from typing import Any, Final

from pilothouse.apiserver.authentication.authenticator import (
    AUDIENCE,
    AUTHENTICATED,
    DependencyUnknownError,
    TokenReviewResult,
    UntrustedError,
)
from pilothouse.apiserver.discovery.catalog import ROOT, KindCatalog
from pilothouse.apiserver.server.messages import User
from pilothouse.apiserver.storage import codec
from pilothouse.apiserver.storage.objects import CachedValues, ObjectStorage
from pilothouse.base.clock import Clock
from pilothouse.base.rfc3339 import TimeError, format_time, parse_time
from pilothouse.meta.errors import StatusError
from pilothouse.meta.kind import Object
from pilothouse.pki.request_signing import RequestedCertificate
from pilothouse.pki.signers import JOINING_NODE, NODE

TYPE: Final = "bootstrap.kubernetes.io/token"
NAMESPACE: Final = "kube-system"
USER: Final = "system:bootstrap:"
GROUP: Final = "system:bootstrappers"
USED_BY: Final = "pilothouse.io/used-by"
USED_AT: Final = "pilothouse.io/used-at"
USED_FOR: Final = "pilothouse.io/used-for"
NODE_NAME: Final = "node-name"
"""The entry of the Secret that names the node."""
COLLECTING = 300.0
"""Seconds after its use that a token still lets its bearer in."""

_TOKEN: Final = re.compile(r"([a-z0-9]{6})\.([a-z0-9]{16})")
_EXTRA_GROUP: Final = re.compile(r"system:bootstrappers:[a-z0-9:-]{0,255}[a-z0-9]")


class BootstrapTokens:
    def __init__(
        self, catalog: KindCatalog, guesses: CachedValues, objects: ObjectStorage, clock: Clock
    ) -> None:
        self._catalog = catalog
        self._guesses = guesses
        self._objects = objects
        self._clock = clock

    def review(self, token: str, audiences: tuple[str, ...]) -> TokenReviewResult | None:
        """The user of a token; None if it does not have the form of one. Raises ``UntrustedError``."""
        form = _TOKEN.fullmatch(token)
        if form is None or AUDIENCE not in audiences:
            return None
        identifier, secret = form.groups()
        found = self._guesses.peek(f"{ROOT}secrets/{NAMESPACE}/{secret_name(identifier)}")
        if found is None:
            raise DependencyUnknownError("invalid bearer token")
        obj = codec.decode(found.value)
        data = _texts(obj)
        if obj.get("type") != TYPE or data.get("token-id") != identifier:
            raise UntrustedError("invalid bearer token")
        if not compare_digest(data.get("token-secret", "").encode(), secret.encode()):
            raise UntrustedError("invalid bearer token")
        if problem := self._why_not(obj, data):
            raise UntrustedError(f"bootstrap token {identifier}: {problem}")
        extra = {JOINING_NODE: (data[NODE_NAME],)} if data.get(NODE_NAME) else {}
        return TokenReviewResult(
            User(f"{USER}{identifier}", groups=tuple(_groups(data)), extra=extra), (AUDIENCE,)
        )

    async def spend(self, identifier: str, request: str, requested: RequestedCertificate) -> str:
        """Use a token for a request; the reason if it can't be used."""
        node = requested.common_name.removeprefix(NODE)
        purpose = f"{node} sha256:{sha256(requested.pem).hexdigest()}"
        served = self._catalog.find("", "v1", "secrets")
        if served is None:
            return "this server keeps no bootstrap tokens"
        refusal = ""

        def mark(secret: Object) -> Object:
            nonlocal refusal
            meta: dict[str, Any] = secret["metadata"]
            notes = meta.get("annotations") or {}
            data = _texts(secret)
            refusal = self._why_not(secret, data)
            if data.get(NODE_NAME) and data[NODE_NAME] != node:
                refusal = f"it is for the node {data[NODE_NAME]}"
            elif notes.get(USED_BY) == request and notes.get(USED_FOR, purpose) == purpose:
                refusal = ""
            elif USED_BY in notes:
                refusal = (
                    f"it was used for the request {notes[USED_BY]}, and a token is valid for one request"
                )
            if refusal or USED_BY in notes:
                return secret
            notes = {**notes, USED_BY: request, USED_FOR: purpose, USED_AT: format_time(self._clock.now())}
            return {**secret, "metadata": {**meta, "annotations": notes}}

        try:
            await self._objects.amend(served, NAMESPACE, secret_name(identifier), mark)
        except StatusError as problem:
            if problem.code != 404:
                raise
            return f"the bootstrap token {identifier} was revoked"
        return f"bootstrap token {identifier}: {refusal}" if refusal else ""

    def _why_not(self, secret: Object, data: Mapping[str, str]) -> str:
        """Why a token is not valid now, or empty."""
        now = self._clock.now()
        if secret["metadata"].get("deletionTimestamp"):
            return "it was revoked"
        if data.get("usage-bootstrap-authentication") != "true":
            return "it is not for authentication (usage-bootstrap-authentication is not true)"
        if until := data.get("expiration"):
            try:
                if now >= parse_time(until):
                    return f"it expired at {until}"
            except TimeError as problem:
                return f"its expiration {problem}"
        if bad := [each for each in _extra_groups(data) if not _EXTRA_GROUP.fullmatch(each)]:
            return f"auth-extra-groups has {bad[0]!r}; groups begin with {GROUP}:"
        used = (secret["metadata"].get("annotations") or {}).get(USED_AT)
        if used and now >= parse_time(used) + COLLECTING:
            return "it has been used"
        return ""


def secret_name(identifier: str) -> str:
    return f"bootstrap-token-{identifier}"


def _texts(secret: Object) -> dict[str, str]:
    data = secret.get("data") or {}
    return {name: b64decode(value).decode(errors="replace") for name, value in data.items()}


def _groups(data: Mapping[str, str]) -> Iterator[str]:
    yield GROUP
    yield from dict.fromkeys(_extra_groups(data))
    yield AUTHENTICATED


def _extra_groups(data: Mapping[str, str]) -> list[str]:
    return [each.strip() for each in data.get("auth-extra-groups", "").split(",") if each.strip()]
