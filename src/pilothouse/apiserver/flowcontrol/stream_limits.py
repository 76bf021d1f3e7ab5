"""Limits how many streams a user may have open: watches, followed logs, sessions in containers.

    limit = StreamLimit("watches", of_user=1000, of_namespace=10_000)
    limit.check(request)                         # 429 if the user has as many as it may
    answer = limit.counted(request, answer)      # the same answer, counted for as long as it runs

A stream gives its seat of flow control back once it has started, but still costs memory and descriptors.
Service accounts of a namespace are also limited together. System users have no limit.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Final

import msgspec

from pilothouse.apiserver.endpoints.call import ResourceRequest
from pilothouse.apiserver.flowcontrol.fair_queuing import PriorityLevel, class_of, tenant_of
from pilothouse.apiserver.server.messages import Answer, Request, Response, User
from pilothouse.meta.errors import too_many_requests

WATCHES_OF_USER: Final = 1000
WATCHES_OF_NAMESPACE: Final = 10_000
SESSIONS_OF_USER: Final = 100

_POD: Final = "authentication.kubernetes.io/pod-name"
_Key = tuple[str, str]


class StreamLimit:
    def __init__(self, what: str, *, of_user: int, of_namespace: int) -> None:
        """``of_namespace`` is for all service accounts of a namespace together."""
        self._what = what
        self._of_user = of_user
        self._of_namespace = of_namespace
        self._open: Counter[_Key] = Counter()

    def check(self, request: Request) -> None:
        """429 if the user has reached its limit."""
        for key in _keys(_sender(request)):
            most = self._of_namespace if key[0] == _NAMESPACE else self._of_user
            if self._open[key] >= most:
                owner = (
                    f"the service accounts of namespace {key[1]} have"
                    if key[0] == _NAMESPACE
                    else f'"{key[1]}" has'
                )
                raise too_many_requests(
                    f"{owner} {most} {self._what} open, which is the limit: end some of them, then try again"
                )

    def counted(self, request: Request, answer: Answer) -> Answer:
        """The response, counted while it runs."""
        if isinstance(answer, Response):
            return answer
        keys, run = _keys(_sender(request)), answer.run

        async def counting(to: object) -> None:
            with self._counting(keys):
                await run(to)  # type: ignore[arg-type]

        return msgspec.structs.replace(answer, run=counting)

    async def limit(
        self, handler: Callable[[ResourceRequest], Awaitable[Answer]], call: ResourceRequest
    ) -> Answer:
        """What ``handler`` answers to a call, checked and counted."""
        self.check(call.request)
        return self.counted(call.request, await handler(call))

    @contextmanager
    def _counting(self, keys: tuple[_Key, ...]) -> Iterator[None]:
        self._open.update(keys)
        try:
            yield
        finally:
            for key in keys:
                self._open[key] -= 1
                if not self._open[key]:
                    del self._open[key]


_USER, _NAMESPACE = "user", "namespace"


def _sender(request: Request) -> User:
    """The user whose limit counts: the authenticated one, not the impersonated one."""
    return request.impersonator or request.user


def _keys(user: User) -> tuple[_Key, ...]:
    """The keys under which a user's stream is counted."""
    if class_of(user) is PriorityLevel.SYSTEM:
        return ()
    namespace, pods = tenant_of(user), user.extra.get(_POD, ())
    # The pods of a set share one service account, and are users of their own all the same.
    own = (_USER, "/".join((user.name, *pods)))
    return (own, (_NAMESPACE, namespace)) if namespace else (own,)
