"""The verbs of an API server, ours or Kubernetes'.

    api = Api(transport, random.Random(), manager="pilothouse-controller-manager")
    pod = await api.get(Pod, "web-0", "default")
    await api.patch(Pod, "web-0", "default", {"metadata": {"labels": {"a": "b"}}}, fence=fence)
    await api.apply(StatefulSet, {"metadata": {"name": "db", "namespace": "default"}, "spec": {...}})
    await api.delete(Pod, "web-0", "default", uid=pod.uid)

Objects are sent as trees, ``Object`` or Structs of ``pilothouse.api``, and returned as ``Object``. An error
response is a ``StatusError``, no response a ``TransportError``, or ``OutcomeUnknown`` for a write that may
have happened (``retries``).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from enum import StrEnum
from random import Random
from typing import Any, Literal, TypedDict, TypeVar, Unpack

import msgspec

from pilothouse.api.kind_names import KindName
from pilothouse.api.objects import Object, Tree, Trees
from pilothouse.client.fence import HEADER, LeadershipFence, always
from pilothouse.client.impersonation import ImpersonatingTransport
from pilothouse.client.retries import RetryingTransport
from pilothouse.client.status_errors import error_of
from pilothouse.client.transport import (
    LONGEST_LIST,
    LONGEST_OBJECT,
    BadAnswer,
    ClientRequest,
    ClientResponse,
    Transport,
)
from pilothouse.meta.apply.patch_types import APPLY_PATCH, JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH
from pilothouse.meta.errors import StatusError

DEADLINE = 30.0
PAGE = 500
_RESTARTS = 3
_PARTIAL = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
_PARTIAL_LIST = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
JSON = "application/json"

T = TypeVar("T")
Body = Tree | Object | msgspec.Struct
Propagation = Literal["", "Background", "Foreground", "Orphan"]
"""What becomes of dependents; by default what the kind's own rule says."""
Lines = AsyncIterator[list[bytes]]
"""Whole lines, as many at a time as have come."""


class Patch(StrEnum):
    JSON = JSON_PATCH
    MERGE = MERGE_PATCH
    STRATEGIC = STRATEGIC_PATCH
    """Kubernetes' own kinds only."""


class WriteOptionsSent(TypedDict, total=False):
    """The options of every write."""

    dry_run: bool
    """Everything but the storing."""
    manager: str
    """Who the fields are credited to, where it is not the client's own name."""
    validation: Literal["Ignore", "Warn", "Strict"]
    """What happens to unknown fields."""
    fence: LeadershipFence | None
    """The leadership under which it is made."""
    deadline: float
    """Seconds."""


@dataclass(frozen=True, slots=True)
class ListPage:
    """A part of a list. An empty ``token`` means that it was the last."""

    objects: list[Object]
    revision: int
    token: str = ""


class _Kind(msgspec.Struct):
    kind: str = ""


class _ListMeta(msgspec.Struct, rename="camel", frozen=True):
    resource_version: str = ""
    token: str = msgspec.field(name="continue", default="")


class _List(msgspec.Struct):
    items: list[msgspec.Raw] | None = None
    metadata: _ListMeta = _ListMeta()


class _Version(msgspec.Struct, rename="camel"):
    git_version: str = ""


@dataclass(frozen=True, slots=True)
class ServerVersion:
    """The version of a server, and whether it is ours."""

    text: str

    @property
    def is_ours(self) -> bool:
        """False for a real Kubernetes, which brings controllers of its own."""
        return "+pilothouse" in self.text


class Api:
    def __init__(
        self, transport: Transport, rng: Random, *, manager: str, wait_for_server: bool = True
    ) -> None:
        """``manager`` is the field manager. ``wait_for_server``: retry while the server can't be reached."""
        self._transport = transport
        self._rng = rng
        self._wait_for_server = wait_for_server
        self._retrying = RetryingTransport(transport, rng, wait_for_server=wait_for_server)
        self._manager = manager

    def impersonating(self, user: str) -> Api:
        """This server, for requests that are made as another user; this one itself if that is empty."""
        if not user:
            return self
        transport = ImpersonatingTransport(self._transport, user)
        return Api(transport, self._rng, manager=self._manager, wait_for_server=self._wait_for_server)

    async def get(
        self,
        noun: KindName,
        name: str,
        namespace: str = "",
        *,
        subresource: str = "",
        deadline: float = DEADLINE,
    ) -> Object:
        call = ClientRequest("GET", noun.path(namespace, name, subresource), headers={"Accept": JSON})
        return _object(noun, await self.read(call, deadline))

    async def find(
        self, noun: KindName, name: str, namespace: str = "", *, deadline: float = DEADLINE
    ) -> Object | None:
        """The object, or None if there is none of this name."""
        try:
            return await self.get(noun, name, namespace, deadline=deadline)
        except StatusError as refusal:
            if refusal.code == 404 and refusal.reason == "NotFound" and refusal.name == name:
                return None
            raise

    async def list(
        self,
        noun: KindName,
        namespace: str = "",
        *,
        labels: str = "",
        fields: str = "",
        page: int = PAGE,
        deadline: float = DEADLINE,
    ) -> ListPage:
        """All of a collection, as of one revision. A list that expires is restarted."""
        query = {"labelSelector": labels, "fieldSelector": fields, "limit": str(page)}
        for attempt in range(_RESTARTS):
            objects: list[Object] = []
            token = ""
            try:
                while True:
                    got = await self.page(noun, namespace, {**query, "continue": token}, deadline)
                    objects += got.objects
                    token = got.token
                    if not token:
                        return ListPage(objects, got.revision)
            except StatusError as refusal:
                if refusal.code != 410 or not token or attempt == _RESTARTS - 1:
                    raise
        raise AssertionError("the last attempt returns or raises")

    async def page(
        self,
        noun: KindName,
        namespace: str = "",
        query: dict[str, str] | None = None,
        deadline: float = DEADLINE,
        *,
        trees: Trees | None = None,
        partial: bool = False,
    ) -> ListPage:
        """One page of a list, by the protocol's parameters; empty ones are left out.

        ``trees`` is a cache's; ``partial`` requests metadata only.
        """
        accept = _PARTIAL_LIST if partial else JSON
        call = ClientRequest(
            "GET",
            noun.path(namespace),
            query=_given(query or {}),
            headers={"Accept": accept},
            longest=LONGEST_LIST,
        )
        answer = await self.read(call, deadline)
        found = decoded(answer, _List)
        try:
            objects = [Object(noun, bytes(item), trees) for item in found.items or ()]
            return ListPage(objects, int(found.metadata.resource_version or 0), found.metadata.token)
        except ValueError as problem:
            raise BadAnswer(f"a list of {noun.resource} can't be read: {problem}") from None

    @asynccontextmanager
    async def watch(
        self, noun: KindName, namespace: str, query: dict[str, str], *, partial: bool = False
    ) -> AsyncIterator[Lines]:
        """The lines of a watch, undecoded; see ``watcher``. Nothing is retried."""
        call = ClientRequest(
            "GET",
            noun.path(namespace),
            query={"watch": "1", **_given(query)},
            headers={"Accept": _PARTIAL if partial else JSON},
        )
        async with self._transport.stream(call) as stream:
            if stream.status != 200:
                body = await stream.read(LONGEST_OBJECT)
                raise error_of(stream.status, body, retry_after=stream.headers.get("Retry-After"))
            # Closed here, not at garbage collection.
            async with aclosing(stream.lines()) as lines:
                yield lines

    async def create(self, noun: KindName, body: Body, **options: Unpack[WriteOptionsSent]) -> Object:
        namespace, _ = _identity(body)
        answer = await self.write("POST", noun.path(namespace), encoded(body), JSON, options)
        return _object(noun, answer)

    async def update(
        self, noun: KindName, body: Body, *, subresource: str = "", **options: Unpack[WriteOptionsSent]
    ) -> Object:
        """Replace the object. With a resourceVersion in it, 409 if it has changed since."""
        namespace, name = _identity(body)
        path = noun.path(namespace, name, subresource)
        return _object(noun, await self.write("PUT", path, encoded(body), JSON, options))

    async def patch(
        self,
        noun: KindName,
        name: str,
        namespace: str,
        body: Tree | Sequence[Tree],
        *,
        kind: Patch = Patch.MERGE,
        subresource: str = "",
        **options: Unpack[WriteOptionsSent],
    ) -> Object:
        path = noun.path(namespace, name, subresource)
        content = msgspec.json.encode(body)
        return _object(noun, await self.write("PATCH", path, content, kind, options))

    async def apply(
        self,
        noun: KindName,
        body: Tree | msgspec.Struct,
        *,
        force: bool = False,
        subresource: str = "",
        **options: Unpack[WriteOptionsSent],
    ) -> Object:
        """Server-side apply: own the fields of ``body`` and no others. 409 names other owners, unless
        forced."""
        namespace, name = _identity(body)
        tree = msgspec.to_builtins(body)
        tree = {"apiVersion": noun.api_version, "kind": noun.kind, **tree}
        path = noun.path(namespace, name, subresource)
        query = {"force": "true"} if force else {}
        answer = await self.write(
            "PATCH",
            path,
            msgspec.json.encode(tree),
            APPLY_PATCH,
            options,
            query=query,
            idempotent=True,
        )
        return _object(noun, answer)

    async def delete(
        self,
        noun: KindName,
        name: str,
        namespace: str = "",
        *,
        uid: str = "",
        revision: str = "",
        propagation: Propagation = "",
        grace: int | None = None,
        **options: Unpack[WriteOptionsSent],
    ) -> Object | None:
        """Delete an object, if it still has this uid and resourceVersion.

        Returns it if it lives on for a while (finalizers, grace), else None.
        """
        content = encoded(deletion(uid, revision, propagation, grace, dry_run=options.get("dry_run", False)))
        answer = await self.write("DELETE", noun.path(namespace, name), content, JSON, options)
        if decoded(answer, _Kind).kind == "Status":
            return None
        left = _object(noun, answer)
        return left if left.deletion_timestamp else None

    async def delete_collection(
        self,
        noun: KindName,
        namespace: str = "",
        *,
        labels: str = "",
        fields: str = "",
        propagation: Propagation = "",
        grace: int | None = None,
        **options: Unpack[WriteOptionsSent],
    ) -> None:
        content = encoded(deletion("", "", propagation, grace, dry_run=options.get("dry_run", False)))
        query = _given({"labelSelector": labels, "fieldSelector": fields})
        await self.write("DELETE", noun.path(namespace), content, JSON, options, query=query)

    async def version(self, *, deadline: float = DEADLINE) -> ServerVersion:
        answer = await self.read(ClientRequest("GET", "/version"), deadline)
        return ServerVersion(decoded(answer, _Version).git_version)

    async def fetch(
        self, path: str, *, accept: str = JSON, deadline: float = DEADLINE, longest: int = LONGEST_OBJECT
    ) -> bytes:
        """The body at any path."""
        call = ClientRequest("GET", path, headers={"Accept": accept}, longest=longest)
        return (await self.read(call, deadline)).body

    async def read(self, call: ClientRequest, deadline: float = DEADLINE) -> ClientResponse:
        """Any request that changes nothing."""
        return await self._retrying.send(call, idempotent=True, deadline=deadline)

    async def write(
        self,
        method: str,
        path: str,
        content: bytes,
        content_type: str,
        options: WriteOptionsSent,
        *,
        query: dict[str, str] | None = None,
        idempotent: bool = False,
    ) -> ClientResponse:
        """Any request that changes something. An idempotent one may be sent twice."""
        parameters = dict(query or {})
        if method != "DELETE":
            parameters["fieldManager"] = options.get("manager") or self._manager
            parameters["fieldValidation"] = options.get("validation", "")
        if options.get("dry_run"):
            parameters["dryRun"] = "All"
        headers = {"Accept": JSON, "Content-Type": str(content_type)}
        left = always
        if fence := options.get("fence"):
            headers[HEADER] = str(fence)
            left = fence.left
        call = ClientRequest(method, path, _given(parameters), headers, content)
        deadline = options.get("deadline", DEADLINE)
        return await self._retrying.send(call, idempotent=idempotent, deadline=deadline, left=left)


def decoded(answer: ClientResponse, cls: type[T]) -> T:
    """Raises ``BadAnswer``."""
    try:
        return msgspec.json.decode(answer.body, type=cls)
    except ValueError as problem:
        raise BadAnswer(f"the server's answer can't be read as {cls.__name__}: {problem}") from None


def _object(noun: KindName, answer: ClientResponse) -> Object:
    try:
        return Object(noun, answer.body)
    except ValueError as problem:
        raise BadAnswer(f"the server's answer is not a {noun.kind}: {problem}") from None


def encoded(body: Body) -> bytes:
    """An object as it is sent."""
    return msgspec.json.encode(body.tree if isinstance(body, Object) else body)


def _identity(body: Body) -> tuple[str, str]:
    if isinstance(body, Object):
        return body.key
    metadata: Any = body["metadata"] if isinstance(body, dict) else msgspec.to_builtins(body)["metadata"]
    return metadata.get("namespace", ""), metadata.get("name", "")


def deletion(uid: str, revision: str, propagation: str, grace: int | None, *, dry_run: bool = False) -> Tree:
    """``DeleteOptions``. If a delete has a body, Kubernetes ignores the query, ``dryRun`` included."""
    options: Tree = {"apiVersion": "v1", "kind": "DeleteOptions"}
    if preconditions := _given({"uid": uid, "resourceVersion": revision}):
        options["preconditions"] = preconditions
    if propagation:
        options["propagationPolicy"] = propagation
    if grace is not None:
        options["gracePeriodSeconds"] = grace
    if dry_run:
        options["dryRun"] = ["All"]
    return options


def _given(params: dict[str, str]) -> dict[str, str]:
    return {name: value for name, value in params.items() if value}
