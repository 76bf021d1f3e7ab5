"""Calls to an etcd cluster: several endpoints, one in use, replaced when it fails.

    connection = ClusterConnection(["http://127.0.0.1:2379"])
    answer = await connection.call(RANGE, RangeRequest(key=b"/a").SerializeToString(), repeatable=True)

Reads are retried at the next endpoint until the deadline; writes only if the attempt certainly never reached
a server, else ``Unavailable`` says that the outcome is unknown. etcd's own errors are ``GrpcRefused``. Calls
require a leader, so that a partitioned member fails at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import msgspec

from pilothouse.store.etcd import messages as wire
from pilothouse.store.etcd.grpc_status import CallFailed
from pilothouse.store.etcd.http2_streams import BidiStream
from pilothouse.store.etcd.member_endpoint import MemberEndpoint, Tls
from pilothouse.store.interface import StoreError, Unavailable


class Method(msgspec.Struct, frozen=True):
    path: str
    answer: Any


RANGE = Method("/etcdserverpb.KV/Range", wire.RangeResponse)
TXN = Method("/etcdserverpb.KV/Txn", wire.TxnResponse)
COMPACT = Method("/etcdserverpb.KV/Compact", wire.CompactionResponse)
WATCH = Method("/etcdserverpb.Watch/Watch", wire.WatchResponse)
LEASE_GRANT = Method("/etcdserverpb.Lease/LeaseGrant", wire.LeaseGrantResponse)
STATUS = Method("/etcdserverpb.Maintenance/Status", wire.StatusResponse)
AUTHENTICATE = Method("/etcdserverpb.Auth/Authenticate", wire.AuthenticateResponse)

_PAUSE = 0.1
"""Seconds to wait when every endpoint has been tried in vain."""


class GrpcRefused(Exception):
    """etcd answered with an error."""

    def __init__(self, code: str, details: str) -> None:
        super().__init__(details)
        self.code = code
        self.details = details


class ClusterConnection:
    def __init__(
        self,
        endpoints: Sequence[str],
        *,
        tls: Tls | None = None,
        user: str = "",
        password: str = "",
        timeout: float = 10.0,
    ) -> None:
        if not endpoints:
            raise StoreError("no etcd endpoint is given; one looks like https://10.0.0.1:2379")
        self.timeout = timeout
        self._user = user
        self._password = password
        self._token = ""
        self._authenticating = asyncio.Lock()
        self._closed = False
        self._endpoints = [
            MemberEndpoint(url, tls=tls, confidential=bool(user), patience=timeout) for url in endpoints
        ]
        self._used = 0

    @property
    def endpoint(self) -> MemberEndpoint:
        return self._endpoints[self._used]

    def move_on(self, failed: MemberEndpoint) -> None:
        """Use the next endpoint, unless another failed call has done so."""
        failed.version = ""
        if self.endpoint is failed:
            self._used = (self._used + 1) % len(self._endpoints)

    async def call(self, method: Method, request: bytes, *, repeatable: bool) -> Any:
        """Raises ``Unavailable`` or ``GrpcRefused``."""
        clock = asyncio.get_running_loop().time
        now = clock()
        deadline = now + self.timeout
        failures = 0
        while True:
            self.check_open()
            endpoint, token = self.endpoint, self._token
            # A member that hangs must leave time for another one to answer.
            patience = (deadline - now) / (2 if repeatable and len(self._endpoints) > 1 else 1)
            try:
                return await self._call(endpoint, method, request, now + patience)
            except CallFailed as failed:
                self.check_open()
                problem = f"etcd at {endpoint.url}: {failed.details}"
                if self._user and method is not AUTHENTICATE and _is_stale_token(failed.details):
                    await self._authenticate(token)
                elif not _is_outage(failed):
                    raise GrpcRefused(failed.code, failed.details) from failed
                else:
                    self.move_on(endpoint)
                    if not (repeatable or _never_arrived(failed)):
                        raise Unavailable(f"{problem}; the write may or may not have happened") from failed
                failures += 1
                if clock() + _PAUSE >= deadline:
                    raise Unavailable(problem) from failed
                if failures % len(self._endpoints) == 0:
                    await asyncio.sleep(_PAUSE)
                now = clock()

    async def stream(self, method: Method, endpoint: MemberEndpoint) -> BidiStream:
        """A stream to one member. Raises ``CallFailed`` or ``Unavailable``."""
        self.check_open()
        token = await self._known_token()
        channel = endpoint.live or await endpoint.connected(self.timeout)
        return channel.stream(endpoint.block(method.path, token))

    async def _call(self, endpoint: MemberEndpoint, method: Method, request: bytes, deadline: float) -> Any:
        """One attempt at one member. Raises ``CallFailed``."""
        token = await self._known_token() if self._user and method is not AUTHENTICATE else ""
        channel = endpoint.live
        if channel is None:
            channel = await endpoint.connected(deadline - asyncio.get_running_loop().time())
        answer = await channel.call(endpoint.block(method.path, token), request, deadline)
        try:
            return method.answer.FromString(answer)
        except wire.DecodeError as error:
            raise CallFailed("INTERNAL", f"an answer that can't be read: {error}") from error

    async def _known_token(self) -> str:
        if self._user and not self._token:
            await self._authenticate("")
        return self._token

    async def renew_if_stale(self, details: str) -> None:
        """Get another token if etcd says that the one in use is no longer valid."""
        if self._user and _is_stale_token(details):
            await self._authenticate(self._token)

    async def _authenticate(self, stale: str) -> None:
        """Get another token than ``stale``; concurrent callers share it."""
        async with self._authenticating:
            if self._token != stale:
                return
            request = wire.AuthenticateRequest(name=self._user, password=self._password).SerializeToString()
            try:
                answer = await self.call(AUTHENTICATE, request, repeatable=True)
            except GrpcRefused as refusal:
                raise StoreError(f"etcd does not accept the user {self._user!r}: {refusal}") from refusal
            self._token = answer.token

    async def version(self, endpoint: MemberEndpoint) -> str:
        """The version of one member; empty if it won't say."""
        if not endpoint.version:
            soon = asyncio.get_running_loop().time() + 2.0
            try:
                answer = await self._call(endpoint, STATUS, b"", soon)
            except CallFailed:
                return ""
            endpoint.version = answer.version
        return endpoint.version

    def check_open(self) -> None:
        if self._closed:
            raise Unavailable("the store is closed")

    async def close(self) -> None:
        self._closed = True
        for endpoint in self._endpoints:
            await endpoint.close()


def _is_outage(failed: CallFailed) -> bool:
    """Whether a failure is one of reaching a working member, rather than an answer."""
    if failed.code == "RESOURCE_EXHAUSTED":
        return "too many requests" in failed.details
    return failed.code in ("UNAVAILABLE", "DEADLINE_EXCEEDED", "CANCELLED", "UNKNOWN", "INTERNAL")


def _never_arrived(failed: CallFailed) -> bool:
    """Whether a request that failed like this certainly changed nothing."""
    return not failed.arrived or any(
        words in failed.details for words in ("no leader", "too many requests", "not capable")
    )


def _is_stale_token(details: str) -> bool:
    return "invalid auth token" in details or "revision of auth store is old" in details
