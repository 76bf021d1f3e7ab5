from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from tests.kit.core import Answered, CoreServer
from tests.kit.rbac_objects import SELF_ACCESS, place, self_review

from pilothouse.apiserver.server.messages import User


class Rights:
    """A server, and short ways to write and to ask about rights."""

    def __init__(self, server: CoreServer) -> None:
        self.server = server
        self.send = server.send

    def add(self, *objects: dict[str, Any], **how: Any) -> Answered:
        """Create objects, each of which must succeed; the last answer."""
        for obj in objects:
            answer = self.create(obj, **how)
            answer.expect(201)
        return answer

    def create(self, obj: dict[str, Any], **how: Any) -> Answered:
        return self.send("POST", place(obj), obj, **how)

    def remove(self, obj: dict[str, Any]) -> None:
        self.send("DELETE", f"{place(obj)}/{obj['metadata']['name']}").expect(200)

    def may(self, user: User, verb: str, what: str, **more: str) -> bool:
        """What the user is told about themselves."""
        answer = self.send("POST", SELF_ACCESS, self_review(verb, what, **more), user=user)
        return bool(answer.expect(201)["status"]["allowed"])

    def namespace(self, name: str) -> str:
        self.send("POST", "/api/v1/namespaces", {"metadata": {"name": name}}).expect(201)
        return name


def person(name: str, *groups: str) -> User:
    return User(name, groups=(*groups, "system:authenticated"))


@pytest.fixture
def rights() -> Iterator[Rights]:
    with CoreServer() as server:
        made = Rights(server)
        made.namespace("t")
        yield made
