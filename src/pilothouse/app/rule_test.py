"""The composition of ``pilothouse rule test``: what rules in a file would do now; nothing is stored.

With an API server, the objects are its claims; without one, all that series name. The metrics come from the
providers of a configuration file, else from the pages that the embedded provider scrapes through the server.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Final

import msgspec

from pilothouse.api.kind_names import Namespace, Node, PersistentVolumeClaim, Pod
from pilothouse.api.objects import Object
from pilothouse.app.rule_files import RuleInFile
from pilothouse.base.clock import SystemClock
from pilothouse.client.access import Access
from pilothouse.client.api import Api
from pilothouse.client.http_transport import HttpTransport
from pilothouse.client.transport import Transport
from pilothouse.rules.providers.embedded import EmbeddedProvider
from pilothouse.rules.providers.prometheus import PrometheusProvider
from pilothouse.rules.providers.provider_set import EMBEDDED, NamedProvider, ProviderSet, providers_from
from pilothouse.rules.providers.scrape_targets import ScrapeTargets
from pilothouse.rules.rule_queries import rule_queries
from pilothouse.rules.rule_reports import (
    ReportedObjects,
    RuleReport,
    named_by_series,
    rule_report,
    selected_claims,
)
from pilothouse.rules.samples import Answer

_AGENT: Final = "pilothouse-rule-test"


class RuleTestError(Exception):
    """Nothing can be evaluated; the message says why."""


class ClusterObjects(msgspec.Struct, frozen=True):
    claims: Sequence[Object]
    pods: Sequence[Object]
    nodes: Sequence[Object]
    namespaces: Sequence[Object]


async def report_rules(
    rules: Sequence[RuleInFile], access: Access | None, config: Path | None, at: float | None
) -> list[RuleReport]:
    """A report for each rule. Raises ``RuleTestError``, ``ConfigError``, ``StatusError``,
    ``TransportError``."""
    async with AsyncExitStack() as stack:
        cluster = embedded = None
        if access is not None:
            transport = await stack.enter_async_context(
                HttpTransport.open(access, SystemClock(), agent=_AGENT)
            )
            cluster = await _read(Api(transport, random.Random(), manager=_AGENT, wait_for_server=False))
            embedded = _embedded(transport, cluster)
            stack.push_async_callback(embedded.close)
        providers = await stack.enter_async_context(providers_from(config, embedded))
        return [await _report(rule, providers, cluster, at) for rule in rules]


async def _read(api: Api) -> ClusterObjects:
    nouns = (PersistentVolumeClaim, Pod, Node, Namespace)
    return ClusterObjects(*[found.objects for found in await asyncio.gather(*map(api.list, nouns))])


def _embedded(transport: Transport, cluster: ClusterObjects) -> EmbeddedProvider:
    targets = ScrapeTargets(lambda: cluster.nodes, lambda: cluster.pods, lambda: cluster.claims)
    return EmbeddedProvider(transport, targets, SystemClock())


async def _report(
    rule: RuleInFile, providers: ProviderSet, cluster: ClusterObjects | None, at: float | None
) -> RuleReport:
    queries = rule_queries(rule.terms.spec)
    provider = providers.get(queries.provider)
    if provider is None:
        raise RuleTestError(_no_provider(queries.provider, providers))
    answers = await _answers(provider, queries.expressions, at)
    objects: ReportedObjects
    warnings: tuple[str, ...] = ()
    if provider.type == EMBEDDED and any("[" in text for text in queries.expressions):
        warnings = ("pages are read once: there is no past for ranges such as [5m]",)
    if cluster is not None:
        objects = selected_claims(rule.terms, cluster.claims, cluster.pods, cluster.namespaces)
    else:
        objects = named_by_series(answers.values(), provider.labels)
        if rule.terms.spec.selector or rule.terms.spec.namespace_selector:
            warnings += ("the selectors are not looked at: no API server says which labels objects have",)
    found = rule_report(rule.terms, answers, objects, provider.labels)
    if rule.volumes:
        kept = tuple(each for each in found.objects if each.volume in rule.volumes)
        found = msgspec.structs.replace(found, objects=kept)
    return msgspec.structs.replace(found, warnings=warnings + found.warnings)


async def _answers(
    found: NamedProvider, expressions: Sequence[str], at: float | None
) -> Mapping[str, Answer]:
    if at is None:
        return await found.provider.query(expressions, SystemClock().now())
    if not isinstance(found.provider, PrometheusProvider):
        raise RuleTestError(f"{found.type} has no past: --at needs a Prometheus")
    return await found.provider.query_at(expressions, at)


def _no_provider(name: str, providers: ProviderSet) -> str:
    if providers.names:
        return f"there is no provider {name}; there are {', '.join(providers.names)}"
    return "there is no provider: name a configuration file with --autopilot-config, or a server"
