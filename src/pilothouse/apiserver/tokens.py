"""Service accounts' tokens: minted for a while, for an audience, perhaps for one pod; worth nothing once that is gone.

``POST …/serviceaccounts/robot/token`` mints. ``review`` says whose a token is, looking each time whether the account
and the object that it is bound to still exist.
"""

from __future__ import annotations

import uuid
from typing import Any

from pilothouse.apiserver import codec, decoding, options
from pilothouse.apiserver.call import Call
from pilothouse.apiserver.catalog import ROOT
from pilothouse.apiserver.exchange import Response, User
from pilothouse.apiserver.objects import Guesses, Objects
from pilothouse.base.clock import Clock
from pilothouse.base.times import format_time
from pilothouse.meta import errors
from pilothouse.meta.fields import FieldError
from pilothouse.pki.jwt import SigningKey

ISSUER = "https://kubernetes.default.svc.cluster.local"
SHORTEST, USUAL, LONGEST = 600, 3600, 1 << 32
_REMEMBERED = 4096
_BINDABLE = {"Pod": "pods", "Secret": "secrets"}
_GROUPS = ("system:serviceaccounts", "system:authenticated")


class Tokens:
    """Mints and reviews service accounts' tokens."""

    def __init__(self, key: SigningKey, objects: Objects, guesses: Guesses, clock: Clock) -> None:
        self._key = key
        self._objects = objects
        self._guesses = guesses
        self._clock = clock
        self._verified: dict[str, dict[str, Any]] = {}

    async def mint(self, call: Call) -> Response:
        """POST of a TokenRequest to a service account."""
        chosen = options.write_options(call.request, call.params, "CreateOptions")
        request = decoding.read(call.request, native=True).value
        if not isinstance(request, dict) or request.get("kind", "TokenRequest") != "TokenRequest":
            raise errors.bad_request("the body must be a TokenRequest of authentication.k8s.io/v1")
        spec = request.get("spec") or {}
        seconds, audiences, bound = _wanted(spec)
        account = await self._objects.find(call.key)
        if account is None:
            raise errors.not_found("serviceaccounts", "", call.name)
        private = {
            "namespace": call.namespace,
            "serviceaccount": {"name": call.name, "uid": codec.decode(account.value)["metadata"]["uid"]},
        }
        if bound:
            private[bound["kind"].lower()] = await self._bound(call.namespace, bound)
        now = int(self._clock.now())
        claims = {
            "iss": ISSUER,
            "aud": audiences,
            "sub": f"system:serviceaccount:{call.namespace}:{call.name}",
            "iat": now,
            "nbf": now,
            "exp": now + seconds,
            "jti": str(uuid.uuid4()),
            "kubernetes.io": private,
        }
        status = {
            "token": "" if chosen.dry_run else self._key.sign(claims),
            "expirationTimestamp": format_time(now + seconds),
        }
        body = {
            "kind": "TokenRequest",
            "apiVersion": "authentication.k8s.io/v1",
            "metadata": {
                "name": call.name,
                "namespace": call.namespace,
                "creationTimestamp": format_time(now),
            },
            "spec": {"audiences": audiences, "expirationSeconds": seconds, "boundObjectRef": bound or None},
            "status": status,
        }
        return Response(201, codec.dump(body))

    def review(self, token: str, audiences: tuple[str, ...] = (ISSUER,)) -> User | None:
        """Whose a token is; None if it is not one of ours, not valid now, or not for any of these audiences."""
        claims = self._claims(token)
        if claims is None:
            return None
        now = self._clock.now()
        if claims.get("iss") != ISSUER or not claims.get("nbf", 0) <= now < claims.get("exp", 0):
            return None
        if not set(audiences) & set(claims.get("aud") or ()):
            return None
        private = claims.get("kubernetes.io") or {}
        namespace, account = private["namespace"], private["serviceaccount"]
        if not self._exists("serviceaccounts", namespace, account):
            return None
        for kind, plural in _BINDABLE.items():
            bound = private.get(kind.lower())
            if bound is not None and not self._exists(plural, namespace, bound):
                return None
        extra = {"authentication.kubernetes.io/credential-id": (f"JTI={claims['jti']}",)}
        if pod := private.get("pod"):
            extra["authentication.kubernetes.io/pod-name"] = (pod["name"],)
            extra["authentication.kubernetes.io/pod-uid"] = (pod["uid"],)
        groups = (_GROUPS[0], f"{_GROUPS[0]}:{namespace}", _GROUPS[1])
        return User(claims["sub"], account["uid"], groups, extra)

    def _claims(self, token: str) -> dict[str, Any] | None:
        """The claims of a token that we signed. A signature is checked once: it never changes, unlike the rest."""
        claims = self._verified.get(token)
        if claims is None:
            try:
                claims = self._key.verify(token)
            except ValueError:
                return None
            if len(self._verified) >= _REMEMBERED:
                del self._verified[next(iter(self._verified))]
            self._verified[token] = claims
        return claims

    def _exists(self, plural: str, namespace: str, wanted: dict[str, str]) -> bool:
        found = self._guesses.peek(f"{ROOT}{plural}/{namespace}/{wanted['name']}")
        return found is not None and codec.decode(found.value)["metadata"]["uid"] == wanted["uid"]

    async def _bound(self, namespace: str, bound: dict[str, Any]) -> dict[str, str]:
        plural, name, uid = _BINDABLE[bound["kind"]], bound["name"], bound.get("uid") or ""
        found = await self._objects.find(f"{ROOT}{plural}/{namespace}/{name}")
        if found is None:
            raise errors.not_found(plural, "", name)
        actual = codec.decode(found.value)["metadata"]["uid"]
        if uid and uid != actual:
            detail = f"the UID in the bound object reference ({uid}) does not match the UID in record"
            raise errors.conflict(plural, "", name, detail)
        return {"name": name, "uid": actual}


def _wanted(spec: Any) -> tuple[int, list[str], dict[str, Any]]:
    """Seconds, audiences and bound object of a request, or 422 with every problem."""
    problems: list[FieldError] = []
    if not isinstance(spec, dict):
        raise errors.bad_request("spec of a TokenRequest must be an object")
    seconds = spec.get("expirationSeconds")
    seconds = USUAL if seconds is None else seconds
    if isinstance(seconds, bool) or not isinstance(seconds, int):
        problems.append(FieldError.type_invalid("spec.expirationSeconds", seconds, "must be an integer"))
    elif seconds < SHORTEST:
        problems.append(
            FieldError.invalid(
                "spec.expirationSeconds", seconds, "may not specify a duration less than 10 minutes"
            )
        )
    elif seconds > LONGEST:
        problems.append(
            FieldError.invalid(
                "spec.expirationSeconds", seconds, "may not specify a duration larger than 2^32 seconds"
            )
        )
    audiences = spec.get("audiences") or [ISSUER]
    if not isinstance(audiences, list) or not all(isinstance(each, str) for each in audiences):
        problems.append(FieldError.type_invalid("spec.audiences", audiences, "must be a list of strings"))
    bound = spec.get("boundObjectRef") or {}
    if not isinstance(bound, dict):
        problems.append(FieldError.type_invalid("spec.boundObjectRef", bound, "must be an object"))
    elif bound and bound.get("kind") not in tuple(_BINDABLE):
        problems.append(FieldError.not_supported("spec.boundObjectRef.kind", bound.get("kind"), _BINDABLE))
    elif bound and not isinstance(bound.get("name"), str):
        problems.append(FieldError.required("spec.boundObjectRef.name"))
    if problems:
        raise errors.invalid("TokenRequest", "authentication.k8s.io", "", problems)
    return seconds, audiences, bound
