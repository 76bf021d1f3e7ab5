"""Questions posed as objects: who am I, may I, whose token is this. Answered, never stored."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pilothouse.apiserver import codec, decoding, ingest, options
from pilothouse.apiserver.authentication import Authenticator
from pilothouse.apiserver.authorization import MASTERS, Attributes, Authorizer
from pilothouse.apiserver.call import Call
from pilothouse.apiserver.exchange import Response, User
from pilothouse.base.clock import Clock
from pilothouse.base.times import format_time
from pilothouse.meta import errors
from pilothouse.meta.fields import FieldError
from pilothouse.meta.kind import Object


class Reviews:
    """Answers every virtual kind."""

    def __init__(self, authenticator: Authenticator, authorizer: Authorizer, clock: Clock) -> None:
        self._authenticator = authenticator
        self._authorizer = authorizer
        self._clock = clock
        self._answers: dict[str, Callable[[Call, Object], dict[str, Any]]] = {
            "SelfSubjectReview": self._self_subject,
            "TokenReview": self._token,
            "SelfSubjectAccessReview": self._self_access,
            "SubjectAccessReview": self._access,
            "LocalSubjectAccessReview": self._local_access,
            "SelfSubjectRulesReview": self._rules,
        }

    def create(self, call: Call) -> Response:
        """POST of a question: 201 and the same object with its status."""
        kind = call.served.kind
        chosen = options.write_options(call.request, call.params, "CreateOptions")
        body = decoding.read(call.request, native=True)
        obj = ingest.take(kind, body, chosen.validation, call.request.warnings)
        problems = [*kind.shape.validate(obj), *kind.validate(obj, None)]
        if problems:
            raise ingest.invalid(kind, obj, problems)
        status = self._answers[kind.name](call, obj)
        metadata = {**obj["metadata"], "creationTimestamp": format_time(self._clock.now())}
        return Response(201, codec.dump({**obj, "metadata": metadata, "status": status}))

    def _self_subject(self, call: Call, review: Object) -> dict[str, Any]:
        return {"userInfo": user_info(call.request.user)}

    def _token(self, call: Call, review: Object) -> dict[str, Any]:
        spec = review.get("spec") or {}
        token = spec.get("token") or ""
        if not token:
            problem = FieldError.required("spec.token", "the token to be reviewed")
            raise ingest.invalid(call.served.kind, review, [problem])
        try:
            user = self._authenticator.identify(None, f"Bearer {token}")
        except errors.StatusError:
            return {"user": {}, "error": "invalid bearer token"}
        return {"authenticated": True, "user": user_info(user), "audiences": spec.get("audiences") or []}

    def _self_access(self, call: Call, review: Object) -> dict[str, Any]:
        return self._decide(call, call.request.user, review)

    def _access(self, call: Call, review: Object) -> dict[str, Any]:
        spec = review.get("spec") or {}
        if not spec.get("user") and not spec.get("groups"):
            problem = FieldError.invalid("spec.user", "", "at least one of user or group must be specified")
            raise ingest.invalid(call.served.kind, review, [problem])
        user = User(spec.get("user") or "", spec.get("uid") or "", tuple(spec.get("groups") or ()))
        return self._decide(call, user, review)

    def _local_access(self, call: Call, review: Object) -> dict[str, Any]:
        attributes = (review.get("spec") or {}).get("resourceAttributes") or {}
        if attributes.get("namespace") != call.namespace:
            detail = f"must match metadata.namespace: {call.namespace}"
            problem = FieldError.invalid(
                "spec.resourceAttributes.namespace", attributes.get("namespace"), detail
            )
            raise ingest.invalid(call.served.kind, review, [problem])
        return self._access(call, review)

    def _decide(self, call: Call, user: User, review: Object) -> dict[str, Any]:
        spec = review.get("spec") or {}
        resource, path = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
        if (resource is None) == (path is None):
            detail = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
            problem = FieldError.invalid("spec.resourceAttributes", resource, detail)
            raise ingest.invalid(call.served.kind, review, [problem])
        if resource is not None:
            asked = Attributes(
                resource.get("verb") or "",
                group=resource.get("group") or "",
                version=resource.get("version") or "",
                resource=resource.get("resource") or "*",
                subresource=resource.get("subresource") or "",
                namespace=resource.get("namespace") or "",
                name=resource.get("name") or "",
            )
        else:
            asked = Attributes((path or {}).get("verb") or "", path=(path or {}).get("path") or "")
        decision = self._authorizer.decide(user, asked)
        status: dict[str, Any] = {"allowed": decision.allowed}
        if decision.reason:
            status["reason"] = decision.reason
        return status

    def _rules(self, call: Call, review: Object) -> dict[str, Any]:
        if not (review.get("spec") or {}).get("namespace"):
            raise errors.bad_request("no namespace on request")
        if MASTERS in call.request.user.groups:
            resources = [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}]
            paths = [{"verbs": ["*"], "nonResourceURLs": ["*"]}]
        else:
            resources = [
                {
                    "verbs": ["create"],
                    "apiGroups": ["authentication.k8s.io", "authorization.k8s.io"],
                    "resources": [
                        "selfsubjectreviews",
                        "selfsubjectaccessreviews",
                        "selfsubjectrulesreviews",
                    ],
                }
            ]
            public = [
                "/healthz",
                "/livez",
                "/readyz",
                "/version",
                "/api",
                "/api/*",
                "/apis",
                "/apis/*",
                "/openapi/*",
            ]
            paths = [{"verbs": ["get"], "nonResourceURLs": public}]
        return {"resourceRules": resources, "nonResourceRules": paths, "incomplete": False}


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
