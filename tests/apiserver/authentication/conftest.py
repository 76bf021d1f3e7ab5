"""A server whose time is ours, with a service account ``t/robot``, a pod of it, a secret and a node."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from tests.kit.core import Answered, CoreServer

from pilothouse.apiserver.authentication.authenticator import UntrustedError
from pilothouse.apiserver.server.messages import User
from pilothouse.base.clock import ManualClock

ACCOUNT = "/api/v1/namespaces/t/serviceaccounts/robot"
POD = "/api/v1/namespaces/t/pods/p"
REVIEWS = "/apis/authentication.k8s.io/v1/tokenreviews"


class Bank:
    """Mints tokens and has them reviewed."""

    def __init__(self, server: CoreServer, clock: ManualClock) -> None:
        self.server = server
        self.clock = clock

    def make(self, path: str, obj: dict[str, Any]) -> dict[str, Any]:
        created: dict[str, Any] = self.server.send("POST", path, obj).expect(201)
        self.server.settle()
        return created

    def make_account(self) -> dict[str, Any]:
        return self.make("/api/v1/namespaces/t/serviceaccounts", {"metadata": {"name": "robot"}})

    def make_pod(self, **spec: Any) -> dict[str, Any]:
        pod = {"containers": [{"name": "c", "image": "i"}], "serviceAccountName": "robot", **spec}
        return self.make("/api/v1/namespaces/t/pods", {"metadata": {"name": "p"}, "spec": pod})

    def delete(self, path: str) -> None:
        self.server.send("DELETE", path, {"gracePeriodSeconds": 0}).expect(200)
        self.server.settle()

    def request(self, **spec: Any) -> Answered:
        return self.server.send("POST", f"{ACCOUNT}/token", {"kind": "TokenRequest", "spec": spec})

    def mint(self, **spec: Any) -> str:
        return str(self.request(**spec).expect(201)["status"]["token"])

    def bound(self, kind: str, name: str) -> str:
        return self.mint(boundObjectRef={"apiVersion": "v1", "kind": kind, "name": name})

    def review(self, token: str, *audiences: str) -> dict[str, Any]:
        """The status of a TokenReview."""
        spec: dict[str, Any] = {"token": token}
        if audiences:
            spec["audiences"] = list(audiences)
        status: dict[str, Any] = self.server.send("POST", REVIEWS, {"spec": spec}).expect(201)["status"]
        return status

    def user(self, token: str) -> User:
        """Whom the token lets in."""
        return self.server.authenticator.identify(None, f"Bearer {token}")

    def why_not(self, token: str) -> str:
        """Why it lets nobody in; a review says the same."""
        with pytest.raises(UntrustedError) as problem:
            self.server.authenticator.review(token)
        status = self.review(token)
        assert status == {"user": {}, "error": str(problem.value)}
        return str(problem.value)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(now=1_700_000_000)


@pytest.fixture
def bank(clock: ManualClock) -> Iterator[Bank]:
    with CoreServer(clock) as server:
        made = Bank(server, clock)
        made.make("/api/v1/namespaces", {"metadata": {"name": "t"}})
        made.make("/api/v1/nodes", {"metadata": {"name": "n"}})
        made.make("/api/v1/namespaces/t/secrets", {"metadata": {"name": "s"}})
        made.make_account()
        yield made
