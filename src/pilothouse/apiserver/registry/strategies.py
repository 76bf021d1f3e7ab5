"""The special kinds: each, by group and plural, with the strategy that the server has for it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from pilothouse.api.k0s import v1beta2
from pilothouse.api.kubernetes import certificates_v1
from pilothouse.api.openstorage import v1alpha1
from pilothouse.apiserver.apiextensions import definitions
from pilothouse.apiserver.authorization.authorizer import Authorizer
from pilothouse.apiserver.authorization.rbac import grants
from pilothouse.apiserver.authorization.rbac.escalation import Escalation
from pilothouse.apiserver.authorization.restriction.restriction_authorizer import Restriction
from pilothouse.apiserver.discovery.catalog import KindCatalog
from pilothouse.apiserver.endpoints.write_pipeline import WritePipeline
from pilothouse.apiserver.flowcontrol.stream_limits import SESSIONS_OF_USER, StreamLimit
from pilothouse.apiserver.registry.action_approvals import ActionApprovalStrategy
from pilothouse.apiserver.registry.certificate_requests import CertificateRequestStrategy
from pilothouse.apiserver.registry.namespace_strategy import NamespaceStrategy
from pilothouse.apiserver.registry.node_client import NodeClient
from pilothouse.apiserver.registry.node_proxy import NodeProxy
from pilothouse.apiserver.registry.node_strategy import NodeStrategy
from pilothouse.apiserver.registry.pod_streams import PodStreams
from pilothouse.apiserver.registry.pods import PodStrategy
from pilothouse.apiserver.registry.roles import RoleStrategy
from pilothouse.apiserver.registry.service_addresses import ServiceAddresses
from pilothouse.apiserver.registry.signal_authorization import ControlNodeStrategy, SignalAuthorization
from pilothouse.apiserver.registry.strategy import Strategy
from pilothouse.apiserver.registry.token_requests import ServiceAccountStrategy
from pilothouse.apiserver.storage.large_writes import LargeWrites
from pilothouse.apiserver.storage.objects import ObjectStorage
from pilothouse.apiserver.storage.watch_cache import WatchCache
from pilothouse.base.clock import Clock
from pilothouse.base.uids import Uids
from pilothouse.pki.jwt import SigningKey

Strategies = Mapping[tuple[str, str], Strategy]


class ReferencedStrategy(Strategy):
    """The strategy of Secrets and ConfigMaps, which restricted users may read while their pods refer to
    them."""

    rechecks_watches = True


def build_strategies(
    *,
    catalog: KindCatalog,
    cache: WatchCache,
    objects: ObjectStorage,
    pipeline: WritePipeline,
    large: LargeWrites,
    clock: Clock,
    uids: Uids,
    signing_key: SigningKey,
    node_client: NodeClient,
    authorizer: Authorizer,
    restriction: Restriction,
    escalation: Escalation,
    custom_resources: definitions.Definitions,
    services: ServiceAddresses,
) -> Strategies:
    """The table. A kind that is not in it has the standard strategy."""
    sessions = StreamLimit(
        "logs and sessions in containers", of_user=SESSIONS_OF_USER, of_namespace=SESSIONS_OF_USER
    )
    proxy = partial(sessions.limit, NodeProxy(objects, node_client).answer)
    stream = partial(sessions.limit, PodStreams(catalog, objects, node_client, clock).answer)
    roles = RoleStrategy(escalation, cache)
    referenced = ReferencedStrategy()
    signals = SignalAuthorization(authorizer, restriction)
    return {
        ("", "configmaps"): referenced,
        ("", "namespaces"): NamespaceStrategy(catalog, cache, pipeline, large),
        ("", "nodes"): NodeStrategy(restriction, cache, proxy, signals),
        ("", "pods"): PodStrategy(catalog, cache, objects, clock, large, stream),
        ("", "secrets"): referenced,
        ("", "serviceaccounts"): ServiceAccountStrategy(
            signing_key, objects, clock, uids, restriction, large
        ),
        ("", "services"): services,
        (definitions.GROUP, definitions.PLURAL): custom_resources,
        (v1beta2.GROUP, "controlnodes"): ControlNodeStrategy(signals),
        (v1alpha1.GROUP, "actionapprovals"): ActionApprovalStrategy(authorizer, clock),
        (certificates_v1.GROUP, "certificatesigningrequests"): CertificateRequestStrategy(authorizer),
        (grants.GROUP, "clusterrolebindings"): roles,
        (grants.GROUP, "clusterroles"): roles,
        (grants.GROUP, "rolebindings"): roles,
        (grants.GROUP, "roles"): roles,
    }
