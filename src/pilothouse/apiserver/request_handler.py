"""The API server without its sockets: a request in, an answer out.

    handler = RequestHandler(store, resources, ...)
    async with handler.running():
        answer = await handler.answer(Request("GET", "/api/v1/namespaces/default", user=admin))

``answer`` authorizes the authenticated user and never raises: every failure becomes a Status.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from ipaddress import IPv4Network
from random import Random

from pilothouse.aio.background_tasks import BackgroundTasks
from pilothouse.aio.ring_buffer import Bounds
from pilothouse.aio.worker_thread import on_loop
from pilothouse.api.kubernetes.node_claims import Network
from pilothouse.api.kubernetes.pod_fields import ignored_fields
from pilothouse.apiserver.admission.admission_chain import AdmissionChain, Refusals
from pilothouse.apiserver.admission.namespace_lifecycle import NamespaceLifecycle
from pilothouse.apiserver.admission.pod_security.admission import PodSecurity
from pilothouse.apiserver.admission.pod_security.configuration import (
    DEFAULT_CONFIGURATION,
    PodSecurityConfiguration,
)
from pilothouse.apiserver.admission.runtime_class import check_runtime_class
from pilothouse.apiserver.admission.service_accounts import ServiceAccounts
from pilothouse.apiserver.apiextensions.definitions import Definitions
from pilothouse.apiserver.authentication.authenticator import Authenticator
from pilothouse.apiserver.authentication.bootstrap_tokens import BootstrapTokens
from pilothouse.apiserver.authentication.impersonation import impersonate
from pilothouse.apiserver.authentication.service_account_tokens import ServiceAccountTokens
from pilothouse.apiserver.authorization.authorizer import Attributes, Chain, Masters
from pilothouse.apiserver.authorization.permission_check import PermissionCheck, attributes_of
from pilothouse.apiserver.authorization.rbac.aggregation import Aggregation
from pilothouse.apiserver.authorization.rbac.escalation import Escalation
from pilothouse.apiserver.authorization.rbac.rbac_authorizer import RBACAuthorizer
from pilothouse.apiserver.authorization.rbac.role_reconciliation import make_roles
from pilothouse.apiserver.authorization.restriction.node_claims import ControlPlaneNetwork, NodeClaims
from pilothouse.apiserver.authorization.restriction.restriction_authorizer import Restriction
from pilothouse.apiserver.bootstrap import make_namespaces
from pilothouse.apiserver.discovery import tables, version
from pilothouse.apiserver.discovery.catalog import KindCatalog
from pilothouse.apiserver.discovery.documents import DiscoveryDocuments
from pilothouse.apiserver.discovery.openapi import OpenAPIDocuments
from pilothouse.apiserver.endpoints.apply import ApplyEndpoint
from pilothouse.apiserver.endpoints.cached_reads import CachedReads
from pilothouse.apiserver.endpoints.call import ResourceRequest
from pilothouse.apiserver.endpoints.create import CreateEndpoint
from pilothouse.apiserver.endpoints.delete import DeleteEndpoint
from pilothouse.apiserver.endpoints.error_responses import refusal
from pilothouse.apiserver.endpoints.get import GetEndpoint
from pilothouse.apiserver.endpoints.list import ListEndpoint
from pilothouse.apiserver.endpoints.patch import PatchEndpoint
from pilothouse.apiserver.endpoints.request_info import fits, locate, subresource_verbs, verb_of
from pilothouse.apiserver.endpoints.scale import ScaleEndpoint
from pilothouse.apiserver.endpoints.update import UpdateEndpoint
from pilothouse.apiserver.endpoints.watch import WatchEndpoint
from pilothouse.apiserver.endpoints.write_pipeline import WritePipeline
from pilothouse.apiserver.flowcontrol.stream_limits import WATCHES_OF_NAMESPACE, WATCHES_OF_USER, StreamLimit
from pilothouse.apiserver.metrics.request_metrics import RequestCounters
from pilothouse.apiserver.registry.access_reviews import AccessReviews
from pilothouse.apiserver.registry.address_allocation import AddressAllocator
from pilothouse.apiserver.registry.certificate_signing import CertificateSigner
from pilothouse.apiserver.registry.node_client import NodeClient, NoNodeClient
from pilothouse.apiserver.registry.service_addresses import ServiceAddresses
from pilothouse.apiserver.registry.service_ranges import CLUSTER_RANGE, NODE_MASK_SIZE, SERVICE_RANGE
from pilothouse.apiserver.registry.strategies import build_strategies
from pilothouse.apiserver.registry.strategy import STANDARD
from pilothouse.apiserver.server.messages import TEXT, Answer, Request, Response, StreamingResponse
from pilothouse.apiserver.server.negotiation import TABLE, AnswerEndpoint, negotiate
from pilothouse.apiserver.server.websockets import EventFrames, over_websocket, upgrade_of
from pilothouse.apiserver.storage import codec
from pilothouse.apiserver.storage.compaction import Compactor
from pilothouse.apiserver.storage.consistency_check import ConsistencyChecker
from pilothouse.apiserver.storage.large_writes import LargeWrites
from pilothouse.apiserver.storage.objects import ObjectStorage
from pilothouse.apiserver.storage.watch_cache import WatchCache
from pilothouse.base.clock import Clock
from pilothouse.base.uids import Uids
from pilothouse.meta import errors
from pilothouse.meta.errors import StatusError
from pilothouse.meta.kind import Resource
from pilothouse.pki.authority import Authority
from pilothouse.pki.jwt import SigningKey
from pilothouse.store.interface import Store

_READ_VERBS = {"GET": "get", "HEAD": "get"}
_FIXED_PATHS = (
    *("/api", "/api/v1", "/apis", "/healthz", "/livez", "/openapi/v2", "/openapi/v3", "/readyz", "/version"),
)
_WRITE_VERBS = frozenset({"create", "update", "patch", "delete", "deletecollection"})

Page = Callable[[Request], Awaitable[Answer]]

log = logging.getLogger(__name__)


class RequestHandler:
    """Authorizes requests and dispatches them to the endpoints; owns all parts behind the sockets."""

    def __init__(
        self,
        store: Store,
        resources: Iterable[Resource],
        *,
        authenticator: Authenticator,
        clock: Clock,
        random: Random,
        uids: Uids,
        refusals: Refusals,
        signing_key: SigningKey,
        authority: Callable[[], Authority],
        nodes: NodeClient = NoNodeClient(),
        service_addresses: IPv4Network = SERVICE_RANGE,
        cluster_ranges: Sequence[Network] = (CLUSTER_RANGE,),
        node_mask_size: int = NODE_MASK_SIZE,
        node_addresses: Sequence[Network] = (),
        server_names: Collection[str] = (),
        history: float = 300.0,
        pod_security: PodSecurityConfiguration = DEFAULT_CONFIGURATION,
        large_writes: LargeWrites | None = None,
    ) -> None:
        self._clock = clock
        self._uids = uids
        self.catalog = KindCatalog(resources)
        self.cache = WatchCache(store, self.catalog, clock, random, bounds=Bounds(age=history))
        book = AddressAllocator(store, random)
        large = large_writes or LargeWrites()
        self._objects = ObjectStorage(book.guarding(store), self.cache, large)
        self._rbac = RBACAuthorizer(self.cache)
        territory = ControlPlaneNetwork(
            services=service_addresses,
            server_names=frozenset(server_names),
            cluster=tuple(cluster_ranges),
            mask_size=node_mask_size,
            nodes=tuple(node_addresses),
        )
        claims = NodeClaims(self.cache, territory)
        self._restriction = Restriction(self.cache, claims)
        self._authorizer = Chain([Masters(), self._restriction, self._rbac])
        self._permits = PermissionCheck(self._authorizer)
        self._aggregation = Aggregation(self.catalog, self.cache, self._objects, clock)
        self._definitions = Definitions(self.catalog, self.cache, self._objects, clock)
        self._addresses = ServiceAddresses(self.cache, book, service_addresses, random)
        bootstrap = BootstrapTokens(self.catalog, self.cache, self._objects, clock)
        self._signing = CertificateSigner(
            self.catalog, self.cache, self._objects, authority, clock, bootstrap.spend, claims.serving_problem
        )
        for listener in (self._rbac, self._aggregation, self._definitions, self._addresses, self._signing):
            self.cache.listen(listener)
        self.watches = WatchEndpoint(self.catalog, self.cache, clock, random)
        self._get = GetEndpoint(self.cache, clock)
        self._list = ListEndpoint(self.cache, clock)
        accounts = ServiceAccounts(self.catalog, self._objects, clock, random, uids)
        self.pod_security = PodSecurity(pod_security, self.cache, clock)
        admission = AdmissionChain(
            NamespaceLifecycle(self._objects),
            mutating=[accounts.complete],
            authorizing=[partial(on_loop, self._restriction.check)],
            validating=[self.pod_security.admit, check_runtime_class],
            refusals=refusals,
            warnings=ignored_fields,
        )
        pipeline = WritePipeline(self._objects, admission, clock, uids, large)
        apply = ApplyEndpoint(pipeline, large, clock, self._may_create)
        self._create = CreateEndpoint(pipeline, large, random)
        self._update = UpdateEndpoint(pipeline, large, self._may_create)
        self._patch = PatchEndpoint(pipeline, large, apply)
        self._delete = DeleteEndpoint(self._objects, admission, self._list, clock, large)
        self._scale = ScaleEndpoint(self._objects, pipeline, clock, large)
        self._strategies = build_strategies(
            catalog=self.catalog,
            cache=self.cache,
            objects=self._objects,
            pipeline=pipeline,
            large=large,
            clock=clock,
            uids=uids,
            signing_key=signing_key,
            node_client=nodes,
            authorizer=self._authorizer,
            restriction=self._restriction,
            escalation=Escalation(self._authorizer, self._rbac),
            custom_resources=self._definitions,
            services=self._addresses,
        )
        authenticator.trust(ServiceAccountTokens(signing_key, self.cache, clock).review, self.cache.fresh)
        authenticator.trust(bootstrap.review, self.cache.fresh)
        self._reviews = AccessReviews(
            authenticator, self._authorizer, self._rbac, self._restriction, clock, large
        )
        self._discovery = DiscoveryDocuments(self.catalog)
        self._openapi = OpenAPIDocuments(self.catalog)
        self._parts = BackgroundTasks(
            {
                "the cache": self.cache.run,
                "following definitions": self._follow_definitions,
                "aggregating roles": self._aggregation.run,
                "signing certificates": self._signing.run,
                "compacting": Compactor(store, history).run,
                "auditing the cache": ConsistencyChecker(self.cache).run,
            }
        )
        self._pages: dict[str, Page] = {}
        self._watch_limit = StreamLimit("watches", of_user=WATCHES_OF_USER, of_namespace=WATCHES_OF_NAMESPACE)

    def serve(self, path: str, page: Page) -> None:
        """Serve a non-resource path. It is authorized like every other path."""
        self._pages[path] = page

    def prompt(self, requests: RequestCounters) -> CachedReads:
        """The synchronous reads; they are counted in ``requests``."""
        return CachedReads(self.catalog, self.cache, self._authorizer, requests)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Follow the store and serve what is in it, until the context ends."""
        async with self._parts.running():
            try:
                await make_namespaces(self.catalog, self._objects, self._clock, self._uids)
                await make_roles(self.catalog, self._objects, self._clock, self._uids)
                await self.cache.filled()
                await self.cache.fresh()
                await self._aggregation.settle()
                yield
            finally:
                self.watches.end_all()

    async def _follow_definitions(self) -> None:
        # After a failure it continues what it left undone, without waiting for a change.
        self._definitions.broken()
        await self._definitions.run()

    async def background_problem(self) -> str:
        """What is wrong with the background tasks; empty if nothing is."""
        return self._parts.problem

    async def answer(self, request: Request) -> Answer:
        try:
            return await self._route(request)
        except StatusError as problem:
            return refusal(problem)
        except asyncio.CancelledError:
            raise
        except Exception:
            log.exception("%s %s failed", request.method, request.path)
            request.crashed = True
            return refusal(errors.internal("unexpected error; the log of the server has details"))

    def check_head(self, request: Request) -> None:
        """Raise for a request that is refused whatever its body, before the body is received."""
        user = request.user
        impersonate(request, self._authorizer)
        place = locate(request.path)
        if place.plural:
            params = request.params()
            verb = verb_of(request.method, place, params) or request.method.lower()
            self._permits.demand_place(request, verb, place, params)
        else:
            self._permits.demand(request, _attributes_of_path(request))
        # ``answer`` authenticates and authorizes it again, with its body.
        request.user, request.impersonator, request.verdict = user, None, None

    async def _route(self, request: Request) -> Answer:
        impersonate(request, self._authorizer)
        place = locate(request.path)
        if not place.plural:
            return await self._path(request)
        params = request.params() if request.query else {}
        verb = verb_of(request.method, place, params)
        self._permits.demand_place(request, verb or request.method.lower(), place, params)
        served = self.catalog.find(place.group, place.version, place.plural)
        if served is None or not fits(served.kind, place, verb):
            return _page_not_found()
        if served.kind.deprecation:
            request.warnings.append(served.kind.deprecation)
        namespace = place.namespace if served.kind.namespaced else ""
        fence = self._permits.fence(request) if request.method not in _READ_VERBS else None
        strategy = self._strategies.get((served.kind.group, served.kind.plural), STANDARD)
        call = ResourceRequest(
            request, served, verb, namespace, place.name, place.subresource, params, fence, strategy
        )
        if verb not in _WRITE_VERBS:
            return await self._dispatch(call)
        _check_answerable(call)
        return await call.strategy.around_write(call, partial(self._dispatch, call))

    async def _dispatch(self, call: ResourceRequest) -> Answer:
        kind = call.served.kind
        if call.subresource:
            return await self._subresource(call)
        if call.verb not in kind.verbs:
            if call.verb in ("update", "patch") and not call.name:
                raise errors.bad_request("name must be provided")
            raise errors.method_not_allowed(call.verb or call.request.method.lower(), kind.plural, kind.group)
        if call.verb == "create" and call.name and kind.native:
            # As in Kubernetes: native objects are created in their collections, custom ones at either place.
            raise errors.method_not_allowed(call.verb, kind.plural, kind.group)
        if kind.virtual:
            return await self._reviews.create(call)
        match call.verb:
            case "get":
                return await self._get.handle(call)
            case "list":
                return await self._list.handle(call)
            case "watch":
                return await self._watch(call)
            case "create":
                self._definitions.check_create(kind)
                return await self._create.handle(call)
            case "delete":
                return await self._delete.handle(call)
            case "deletecollection":
                return await self._delete.handle_collection(call)
        if not call.name:
            raise errors.bad_request("name must be provided")
        return await (self._update if call.verb == "update" else self._patch).handle(call)

    async def _watch(self, call: ResourceRequest) -> Answer:
        request = call.request
        upgrade = upgrade_of(request)
        self._watch_limit.check(request)
        streaming = await self.watches.handle(call, self._still_allowed(call))
        answer = self._watch_limit.counted(request, streaming)
        if upgrade is None or not isinstance(answer, StreamingResponse):
            return answer
        return over_websocket(answer, upgrade, EventFrames())

    def _still_allowed(self, call: ResourceRequest) -> Callable[[], bool] | None:
        """The check before each event, if the watch's user may lose access; else None."""
        user = call.request.user
        if not call.strategy.rechecks_watches or not self._restriction.confines(user):
            return None
        attributes = attributes_of(call.request, call.verb, locate(call.request.path), call.params)
        return lambda: self._restriction.remains(user) and self._authorizer.decide(user, attributes).allowed

    async def _subresource(self, call: ResourceRequest) -> Answer:
        kind = call.served.kind
        allowed = subresource_verbs(kind, call.subresource)
        if not allowed:
            # Such as pods/portforward: the refusal must not read as if the pod were absent.
            lacking = "" if kind.native else call.subresource
            raise errors.not_served(kind.plural, kind.group, lacking)
        if call.verb not in allowed:
            raise errors.method_not_allowed(call.verb or call.request.method.lower(), kind.plural, kind.group)
        if handler := call.strategy.subresources.get(call.subresource):
            return await handler(call)
        if call.subresource == "scale":
            return await self._scale.handle(call)
        match call.verb:
            case "get":
                return await self._get.handle(call)
            case "update":
                return await self._update.handle(call)
            case "patch":
                return await self._patch.handle(call)
        raise errors.method_not_allowed(call.verb, kind.plural, kind.group)

    async def _path(self, request: Request) -> Answer:
        """Non-resource paths: discovery, OpenAPI, version."""
        self._permits.demand(request, _attributes_of_path(request))
        if request.path in version.PATHS:
            return version.answer()
        if page := self._pages.get(request.path):
            return await page(request)
        answer = self._discovery.answer(request) or await self._openapi.answer(request)
        if answer is not None:
            return answer
        if request.path == "/":
            return Response(200, codec.dump({"paths": self._paths()}))
        return _page_not_found()

    def _paths(self) -> list[str]:
        paths = [*_FIXED_PATHS, *self._pages]
        for group, versions in self.catalog.groups().items():
            if group:
                paths += [f"/apis/{group}", *(f"/apis/{group}/{each}" for each in versions)]
        return sorted(paths)

    def _may_create(self, call: ResourceRequest) -> None:
        """403 unless the user may create the object that an apply or an update is about."""
        kind = call.served.kind
        attributes = Attributes(
            "create",
            call.request.path,
            kind.group,
            kind.version,
            kind.plural,
            namespace=call.namespace,
            name=call.name,
        )
        self._permits.demand(call.request, attributes)
        self._definitions.check_create(kind)


def _attributes_of_path(request: Request) -> Attributes:
    return Attributes.of_path(_READ_VERBS.get(request.method, request.method.lower()), request.path)


def _page_not_found() -> Response:
    return Response(404, b"404 page not found\n", TEXT)


def _check_answerable(call: ResourceRequest) -> None:
    """Refuse a response form that can't be rendered before anything is written."""
    endpoint = AnswerEndpoint.LIST if call.verb == "deletecollection" else AnswerEndpoint.OBJECT
    form = negotiate(call.request, AnswerEndpoint.REVIEW if call.served.kind.virtual else endpoint)
    if form.transform == TABLE:
        tables.included(call.params)
