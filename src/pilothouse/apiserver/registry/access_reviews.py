"""Reviews: objects that ask who a user is, what they may do, or whose a token is. Answered, never stored."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Protocol

from pilothouse.apiserver.authentication.authenticator import AUDIENCE, Authenticator, UntrustedError
from pilothouse.apiserver.authorization.authorizer import Attributes, Authorizer
from pilothouse.apiserver.authorization.rbac.rules import PolicyRule
from pilothouse.apiserver.endpoints import decoding, object_metadata, strict_decoding, write_options
from pilothouse.apiserver.endpoints.call import ResourceRequest
from pilothouse.apiserver.endpoints.rendering import transformed
from pilothouse.apiserver.registry.review_selectors import field_selector, label_selector
from pilothouse.apiserver.server.messages import Response, User
from pilothouse.apiserver.server.negotiation import AnswerEndpoint, negotiate
from pilothouse.apiserver.storage import codec
from pilothouse.apiserver.storage.large_writes import LargeWrites
from pilothouse.base.clock import Clock
from pilothouse.base.rfc3339 import format_time
from pilothouse.meta import errors
from pilothouse.meta.fields import FieldError
from pilothouse.meta.kind import Kind, Object

_RIGHTS = "authorization.k8s.io"


class RuleResolver(Protocol):
    def rules_of(self, user: User, namespace: str) -> tuple[list[PolicyRule], list[str]]: ...


class ScopeCheck(Protocol):
    """Knows users that are restricted by more than rules."""

    def confines(self, user: User) -> bool: ...


class AccessReviews:
    def __init__(
        self,
        authenticator: Authenticator,
        authorizer: Authorizer,
        holdings: RuleResolver,
        scopes: ScopeCheck,
        clock: Clock,
        large: LargeWrites,
    ) -> None:
        self._authenticator = authenticator
        self._authorizer = authorizer
        self._holdings = holdings
        self._scopes = scopes
        self._clock = clock
        self._large = large
        self._answers: dict[str, Callable[[ResourceRequest, Object], dict[str, Any]]] = {
            "SelfSubjectReview": self._self_subject,
            "SelfSubjectAccessReview": self._self_access,
            "SubjectAccessReview": self._access,
            "LocalSubjectAccessReview": self._access,
            "SelfSubjectRulesReview": self._rules,
        }

    async def create(self, call: ResourceRequest) -> Response:
        """POST of a review: 201 and the same object with its status."""
        kind = call.served.kind
        obj = await self._large.run(call.request, lambda: self._take(call))
        if kind.name == "TokenReview":
            status = await self._token(obj["spec"])
        else:
            status = self._answers[kind.name](call, obj)
        metadata = {**obj["metadata"], "creationTimestamp": format_time(self._clock.now())}
        form = negotiate(call.request, AnswerEndpoint.REVIEW)
        answer = codec.dump({**obj, "metadata": metadata, "status": status})
        written = form.write(transformed(call.request, kind, form, answer, self._clock.now()))
        return Response(201, written, form.media)

    def _take(self, call: ResourceRequest) -> Object:
        """The review in the body of a request, validated."""
        kind = call.served.kind
        options = write_options.write_options(call.request, call.params, "CreateOptions")
        body = decoding.read(call.request, native=True)
        obj = strict_decoding.take(kind, body, options.validation, call.request.warnings)
        object_metadata.place(kind, obj["metadata"], call.namespace)
        problems = [*kind.shape.validate(obj), *_unexpected_metadata(kind, obj["metadata"])]
        problems = problems or [*kind.validate(obj, None)]
        if problems:
            raise strict_decoding.invalid(kind, obj, problems)
        return obj

    def _self_subject(self, call: ResourceRequest, review: Object) -> dict[str, Any]:
        return {"userInfo": user_info(call.request.user)}

    async def _token(self, spec: Object) -> dict[str, Any]:
        """The user of a token, and its audiences among the requested ones, by default this server's."""
        audiences = tuple(spec.get("audiences") or ()) or (AUDIENCE,)
        try:
            vouched = await self._authenticator.review_surely(spec["token"], audiences)
        except UntrustedError as problem:
            return {"user": {}, "error": str(problem)}
        return {"authenticated": True, "user": user_info(vouched.user), "audiences": list(vouched.audiences)}

    def _self_access(self, call: ResourceRequest, review: Object) -> dict[str, Any]:
        return self._decide(call.request.user, review)

    def _access(self, call: ResourceRequest, review: Object) -> dict[str, Any]:
        spec = review["spec"]
        extra = {name: tuple(values or ()) for name, values in (spec.get("extra") or {}).items()}
        user = User(spec.get("user") or "", spec.get("uid") or "", tuple(spec.get("groups") or ()), extra)
        return self._decide(user, review)

    def _decide(self, user: User, review: Object) -> dict[str, Any]:
        decision = self._authorizer.decide(user, _attributes(review["spec"]))
        status: dict[str, Any] = {"allowed": decision.allowed}
        if decision.denied:
            status["denied"] = True
        if decision.reason:
            status["reason"] = decision.reason
        return status

    def _rules(self, call: ResourceRequest, review: Object) -> dict[str, Any]:
        namespace = (review.get("spec") or {}).get("namespace")
        if not namespace:
            raise errors.bad_request("no namespace on request")
        rules, absences = self._holdings.rules_of(call.request.user, namespace)
        status: dict[str, Any] = {
            "resourceRules": [rule.write() for rule in rules if rule.resources],
            "nonResourceRules": [rule.write() for rule in rules if rule.urls],
            "incomplete": self._scopes.confines(call.request.user),
        }
        if status["incomplete"]:
            absences = [
                "what pilots and nodes may do depends on objects, and these rules do not tell",
                *absences,
            ]
        if absences:
            status["evaluationError"] = ", ".join(absences)
        return status


def _attributes(spec: Object) -> Attributes:
    """What an access review is about."""
    resource = spec.get("resourceAttributes")
    if resource is None:
        path = spec["nonResourceAttributes"]
        return Attributes.of_path(path.get("verb") or "", path.get("path") or "")
    return Attributes(
        resource.get("verb") or "",
        group=resource.get("group") or "",
        version=resource.get("version") or "*",
        resource=resource.get("resource") or "",
        subresource=resource.get("subresource") or "",
        namespace=resource.get("namespace") or "",
        name=resource.get("name") or "",
        label_selector=label_selector(resource.get("labelSelector")),
        field_selector=field_selector(resource.get("fieldSelector")),
    )


def _unexpected_metadata(kind: Kind, metadata: Object) -> Iterator[FieldError]:
    """Problems with metadata in an access review, which has only a spec."""
    given = {name for name, value in metadata.items() if value} - {"managedFields"}
    if kind.group == _RIGHTS and kind.name != "SelfSubjectRulesReview" and given - {"namespace"}:
        allowed = " except for namespace" if kind.namespaced else ""
        yield FieldError.invalid("metadata", metadata, f"must be empty{allowed}")


def user_info(user: User) -> dict[str, Any]:
    """A user, as reviews describe one."""
    info: dict[str, Any] = {"username": user.name}
    if user.uid:
        info["uid"] = user.uid
    if user.groups:
        info["groups"] = list(user.groups)
    if user.extra:
        info["extra"] = {name: list(values) for name, values in user.extra.items()}
    return info
