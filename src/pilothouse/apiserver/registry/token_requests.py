"""``POST …/serviceaccounts/robot/token``: issues a token (``authentication.service_account_tokens`` verifies
it).

    {"spec": {"expirationSeconds": 3600, "boundObjectRef": {"kind": "Pod", "name": "db-0"}}}

A token bound to a pod also names the pod's node.
"""

from __future__ import annotations

from typing import Any

import msgspec

from pilothouse.apiserver.authentication.authenticator import AUDIENCE
from pilothouse.apiserver.authentication.service_account_tokens import (
    ISSUER,
    BoundReference,
    PrivateClaims,
    TokenClaims,
)
from pilothouse.apiserver.authorization.restriction.restriction_authorizer import Restriction
from pilothouse.apiserver.discovery.catalog import ROOT
from pilothouse.apiserver.endpoints import decoding, write_options
from pilothouse.apiserver.endpoints.call import ResourceRequest
from pilothouse.apiserver.registry.strategy import Strategy
from pilothouse.apiserver.server.messages import Response
from pilothouse.apiserver.storage import codec
from pilothouse.apiserver.storage.large_writes import LargeWrites
from pilothouse.apiserver.storage.objects import ObjectStorage
from pilothouse.base.clock import Clock
from pilothouse.base.rfc3339 import format_time
from pilothouse.base.uids import Uids
from pilothouse.meta import errors
from pilothouse.meta.fields import FieldError
from pilothouse.meta.kind import Object
from pilothouse.pki.jwt import SigningKey

SHORTEST, USUAL, LONGEST = 600, 3600, 1 << 32
_GROUP = "authentication.k8s.io"
_BINDABLE = {"Pod": "pods", "Secret": "secrets", "Node": "nodes"}


class TokenRequestSpec(msgspec.Struct, frozen=True):
    seconds: int
    audiences: list[str]
    bound: dict[str, str]
    """Kind, name and perhaps uid of an object; empty for a token that is bound to its account alone."""


class ServiceAccountStrategy(Strategy):
    def __init__(
        self,
        key: SigningKey,
        objects: ObjectStorage,
        clock: Clock,
        uids: Uids,
        restriction: Restriction,
        large: LargeWrites,
    ) -> None:
        self._restriction = restriction
        self._large = large
        self.subresources = {"token": self._create_token}
        self._key = key
        self._objects = objects
        self._clock = clock
        self._uids = uids

    async def _create_token(self, call: ResourceRequest) -> Response:
        """POST of a TokenRequest to a service account."""
        read = await self._large.run(call.request, lambda: decoding.read(call.request, native=True))
        request = read.value
        self._restriction.check_token_request(call, request)
        options = write_options.write_options(call.request, call.params, "CreateOptions")
        if not isinstance(request, dict) or request.get("kind", "TokenRequest") != "TokenRequest":
            raise errors.bad_request(f"the body must be a TokenRequest of {_GROUP}/v1")
        _check_metadata(request.get("metadata") or {}, call)
        account = await self._object("serviceaccounts", call.namespace, call.name)
        wanted = read_request(request.get("spec") or {})
        private = PrivateClaims(call.namespace, BoundReference(call.name, account["metadata"]["uid"]))
        if wanted.bound:
            private = await self._bind(private, wanted.bound)
        now = int(self._clock.now())
        claims = TokenClaims(
            iss=ISSUER,
            sub=f"system:serviceaccount:{call.namespace}:{call.name}",
            aud=tuple(wanted.audiences),
            iat=now,
            nbf=now,
            exp=now + wanted.seconds,
            jti=self._uids.new(),
            kubernetes=private,
        )
        body = {
            "kind": "TokenRequest",
            "apiVersion": f"{_GROUP}/v1",
            "metadata": {
                "name": call.name,
                "namespace": call.namespace,
                "creationTimestamp": format_time(now),
            },
            "spec": {
                "audiences": wanted.audiences,
                "expirationSeconds": wanted.seconds,
                "boundObjectRef": wanted.bound or None,
            },
            "status": {
                "token": "" if options.dry_run else self._key.sign(msgspec.to_builtins(claims)),
                "expirationTimestamp": format_time(claims.exp),
            },
        }
        return Response(201, codec.dump(body))

    async def _bind(self, private: PrivateClaims, bound: dict[str, str]) -> PrivateClaims:
        """The claims of a token bound to an object; 404 or 409 if it is not as the request says."""
        kind, name, uid = bound["kind"], bound["name"], bound.get("uid", "")
        namespace = "" if kind == "Node" else private.namespace
        found = await self._object(_BINDABLE[kind], namespace, name)
        actual = found["metadata"]["uid"]
        node = None
        if kind == "Pod":
            spec = found.get("spec") or {}
            if (spec.get("serviceAccountName") or "default") != private.serviceaccount.name:
                raise errors.bad_request(
                    f'cannot bind token for serviceaccount "{private.serviceaccount.name}" to pod running '
                    "with "
                    "different serviceaccount name."
                )
            node = await self._node(spec.get("nodeName") or "")
        if uid and uid != actual:
            detail = (
                f"the UID in the bound object reference ({uid}) does not match the UID in record. "
                "The object might have been deleted and then recreated"
            )
            raise errors.conflict(_BINDABLE[kind], "", name, detail)
        reference = BoundReference(name, actual)
        match kind:
            case "Pod":
                return msgspec.structs.replace(private, pod=reference, node=node)
            case "Secret":
                return msgspec.structs.replace(private, secret=reference)
        return msgspec.structs.replace(private, node=reference)

    async def _node(self, name: str) -> BoundReference | None:
        """The node of a pod; only its name if it is not registered."""
        if not name:
            return None
        found = await self._objects.glance(f"{ROOT}nodes/{name}")
        return BoundReference(name, codec.decode(found.value)["metadata"]["uid"] if found else "")

    async def _object(self, plural: str, namespace: str, name: str) -> Object:
        found = await self._objects.find(
            f"{ROOT}{plural}/{namespace}/{name}" if namespace else f"{ROOT}{plural}/{name}"
        )
        if found is None:
            raise errors.not_found(plural, "", name)
        return codec.decode(found.value)


def read_request(spec: Any) -> TokenRequestSpec:
    """The requested token, with defaults; 422 with every problem."""
    if not isinstance(spec, dict):
        raise errors.bad_request("spec of a TokenRequest must be an object")
    problems: list[FieldError] = []
    seconds = spec.get("expirationSeconds")
    seconds = USUAL if seconds is None else seconds
    path = "spec.expirationSeconds"
    if isinstance(seconds, bool) or not isinstance(seconds, int):
        problems.append(FieldError.type_invalid(path, seconds, "must be an integer"))
    elif seconds < SHORTEST:
        problems.append(FieldError.invalid(path, seconds, "may not specify a duration less than 10 minutes"))
    elif seconds > LONGEST:
        problems.append(
            FieldError.invalid(path, seconds, "may not specify a duration larger than 2^32 seconds")
        )
    audiences = spec.get("audiences") or [AUDIENCE]
    if not isinstance(audiences, list) or not all(isinstance(each, str) for each in audiences):
        problems.append(FieldError.type_invalid("spec.audiences", audiences, "must be a list of strings"))
    bound = spec.get("boundObjectRef") or {}
    path = "spec.boundObjectRef"
    if not isinstance(bound, dict) or not all(isinstance(each, str | None) for each in bound.values()):
        problems.append(FieldError.type_invalid(path, bound, "must be an object of strings"))
        bound = {}
    elif bound and not bound.get("name"):
        problems.append(FieldError.required(f"{path}.name"))
    if problems:
        raise errors.invalid("TokenRequest", _GROUP, "", problems)
    if bound:
        _check_bindable(bound.get("apiVersion") or "v1", bound.get("kind") or "")
    return TokenRequestSpec(seconds, audiences, {name: value for name, value in bound.items() if value})


def _check_bindable(api_version: str, kind: str) -> None:
    if api_version != "v1" or kind not in _BINDABLE:
        raise errors.bad_request(
            f"cannot bind token to object of type {api_version}, Kind={kind}; it may be a v1 "
            f"{', '.join(_BINDABLE)}"
        )


def _check_metadata(metadata: Any, call: ResourceRequest) -> None:
    """422 for a request that names another service account than the one it is sent to."""
    if not isinstance(metadata, dict):
        raise errors.bad_request("metadata of a TokenRequest must be an object")
    problems = [
        FieldError.invalid(f"metadata.{field}", given, f"must match the service account {field} if specified")
        for field, actual in (("name", call.name), ("namespace", call.namespace))
        if (given := metadata.get(field)) and given != actual
    ]
    if problems:
        raise errors.invalid("TokenRequest", _GROUP, call.name, problems)
