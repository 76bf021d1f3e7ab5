"""Calls to an etcd cluster: several endpoints, one in use, moved on from when it fails.

    connection = Connection(["http://127.0.0.1:2379"])
    answer = await connection.call(RANGE, RangeRequest(key=b"/a"), repeatable=True)

Every call has a deadline. A call that only reads is repeated at the next endpoint until its deadline; one that writes is
repeated only when the failed attempt certainly never reached a server, for otherwise it may have been carried out: then
``Unavailable`` says so. What etcd itself refuses (a compacted revision, a request too large) comes as ``Refused``, for
the caller to translate.

Every call asks for a leader, so that a member cut off from the others says so at once instead of waiting or answering
from the past.
"""

from __future__ import annotations

import asyncio
import ipaddress
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit

import grpc
import grpc.aio
import msgspec

from pilothouse.store.etcd import messages as wire
from pilothouse.store.interface import StoreError, Unavailable


class Tls(msgspec.Struct, frozen=True):
    """PEM texts: whom to trust, and who we are."""

    ca: bytes | None = None
    cert: bytes | None = None
    key: bytes | None = None


class Method(msgspec.Struct, frozen=True):
    """A method of etcd's API."""

    path: str
    answer: Any


RANGE = Method("/etcdserverpb.KV/Range", wire.RangeResponse)
TXN = Method("/etcdserverpb.KV/Txn", wire.TxnResponse)
COMPACT = Method("/etcdserverpb.KV/Compact", wire.CompactionResponse)
WATCH = Method("/etcdserverpb.Watch/Watch", wire.WatchResponse)
LEASE_GRANT = Method("/etcdserverpb.Lease/LeaseGrant", wire.LeaseGrantResponse)
STATUS = Method("/etcdserverpb.Maintenance/Status", wire.StatusResponse)
AUTHENTICATE = Method("/etcdserverpb.Auth/Authenticate", wire.AuthenticateResponse)

_OPTIONS = [
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    ("grpc.enable_retries", 0),
    # etcd drops clients that ping more often than every five seconds.
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 5_000),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 2_000),
]

_PAUSE = 0.1
"""Seconds to wait when every endpoint has been tried in vain."""


class Refused(Exception):
    """etcd has answered, and the answer is no."""

    def __init__(self, code: str, details: str) -> None:
        super().__init__(details)
        self.code = code
        self.details = details


class Endpoint:
    """One member, as it is reached."""

    def __init__(self, url: str, channel: grpc.aio.Channel) -> None:
        self.url = url
        self.channel = channel
        self.version = ""
        """What the member says it is; empty until asked, and again after it has failed."""
        self._methods: dict[str, Any] = {}

    def unary(self, method: Method) -> Any:
        found = self._methods.get(method.path)
        if found is None:
            found = self.channel.unary_unary(
                method.path,
                request_serializer=_serialize,
                response_deserializer=method.answer.FromString,
            )
            self._methods[method.path] = found
        return found

    def stream(self, method: Method, metadata: Sequence[tuple[str, str]]) -> Any:
        return self.channel.stream_stream(
            method.path, request_serializer=_serialize, response_deserializer=method.answer.FromString
        )(metadata=metadata)


class Connection:
    """The cluster, by whichever endpoint works."""

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
        self._endpoints = [Endpoint(url, _channel(url, tls, bool(user))) for url in endpoints]
        self._used = 0

    @property
    def endpoint(self) -> Endpoint:
        return self._endpoints[self._used]

    def move_on(self, failed: Endpoint) -> None:
        """Use the next endpoint, unless another call that failed has seen to it already."""
        failed.version = ""
        if self.endpoint is failed:
            self._used = (self._used + 1) % len(self._endpoints)

    async def metadata(self) -> list[tuple[str, str]]:
        """What goes with every call."""
        found = [("hasleader", "true")]
        if self._user:
            if not self._token:
                await self._authenticate("")
            found.append(("token", self._token))
        return found

    async def call(self, method: Method, request: Any, *, repeatable: bool) -> Any:
        """Raises ``Unavailable`` or ``Refused``."""
        clock = asyncio.get_running_loop().time
        deadline = clock() + self.timeout
        failures = 0
        while True:
            self.check_open()
            endpoint, token = self.endpoint, self._token
            # A member that hangs must leave time for another one to answer.
            patience = (deadline - clock()) / (2 if repeatable and len(self._endpoints) > 1 else 1)
            try:
                metadata = await self.metadata() if method is not AUTHENTICATE else None
                return await endpoint.unary(method)(request, timeout=patience, metadata=metadata)
            except grpc.aio.AioRpcError as error:
                code, details = error.code(), error.details() or ""
                if self._user and method is not AUTHENTICATE and _is_stale_token(details):
                    await self._authenticate(token)
                elif not _is_outage(code, details):
                    raise Refused(code.name, details) from error
                else:
                    self.move_on(endpoint)
                    if not (repeatable or _never_arrived(details)):
                        raise Unavailable(f"etcd at {endpoint.url}: {details or code.name}") from error
                failures += 1
                if clock() + _PAUSE >= deadline:
                    raise Unavailable(f"etcd at {endpoint.url}: {details or code.name}") from error
                if failures % len(self._endpoints) == 0:
                    await asyncio.sleep(_PAUSE)
            except asyncio.CancelledError:
                # Closing a channel cancels its calls; that is not the caller's own cancellation.
                task = asyncio.current_task()
                if self._closed and not (task and task.cancelling()):
                    raise Unavailable("the store is closed") from None
                raise

    async def renew_if_stale(self, details: str) -> None:
        """Get another token if these words of etcd's say that the one in use is not valid any more."""
        if self._user and _is_stale_token(details):
            await self._authenticate(self._token)

    async def _authenticate(self, stale: str) -> None:
        """Get another token than ``stale``; whoever comes at the same time shares it."""
        async with self._authenticating:
            if self._token != stale:
                return
            request = wire.AuthenticateRequest(name=self._user, password=self._password)
            try:
                answer = await self.call(AUTHENTICATE, request, repeatable=True)
            except Refused as refusal:
                raise StoreError(f"etcd does not accept the user {self._user!r}: {refusal}") from refusal
            self._token = answer.token

    async def version(self, endpoint: Endpoint) -> str:
        """The version of one member; empty if it won't say."""
        if not endpoint.version:
            try:
                metadata = await self.metadata()
                answer = await endpoint.unary(STATUS)(wire.StatusRequest(), timeout=2.0, metadata=metadata)
            except grpc.aio.AioRpcError:
                return ""
            endpoint.version = answer.version
        return endpoint.version

    def check_open(self) -> None:
        if self._closed:
            raise Unavailable("the store is closed")

    async def close(self) -> None:
        self._closed = True
        for endpoint in self._endpoints:
            await endpoint.channel.close(None)


def _serialize(message: Any) -> bytes:
    serialized: bytes = message.SerializeToString()
    return serialized


def _channel(url: str, tls: Tls | None, has_password: bool) -> grpc.aio.Channel:
    parts = urlsplit(url if "//" in url else f"//{url}", scheme="https" if tls else "http")
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise StoreError(f"{url!r} is not an etcd endpoint; one looks like https://10.0.0.1:2379")
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    target = f"{host}:{parts.port or 2379}"
    if parts.scheme == "http":
        if has_password and not _is_loopback(parts.hostname):
            raise StoreError(f"{url}: a password is sent over TLS only; use https")
        return grpc.aio.insecure_channel(target, options=_OPTIONS)
    tls = tls or Tls()
    credentials = grpc.ssl_channel_credentials(tls.ca, tls.key, tls.cert)
    return grpc.aio.secure_channel(target, credentials, options=_OPTIONS)


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _is_outage(code: grpc.StatusCode, details: str) -> bool:
    """Whether a failure is one of reaching a working member, rather than an answer."""
    if code is grpc.StatusCode.RESOURCE_EXHAUSTED:
        return "too many requests" in details
    return code in (
        grpc.StatusCode.UNAVAILABLE,
        grpc.StatusCode.DEADLINE_EXCEEDED,
        grpc.StatusCode.CANCELLED,
        grpc.StatusCode.UNKNOWN,
        grpc.StatusCode.INTERNAL,
    )


def _never_arrived(details: str) -> bool:
    """Whether a request that failed with these words certainly changed nothing."""
    return any(
        words in details
        for words in (
            "failed to connect",
            "onnection refused",
            "no leader",
            "too many requests",
            "not capable",
        )
    )


def _is_stale_token(details: str) -> bool:
    return "invalid auth token" in details or "revision of auth store is old" in details
