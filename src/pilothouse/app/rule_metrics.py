"""The providers of a manager's rules, which are made when there is a rule.

    metrics = RuleMetrics(transport, informers, clock, Path("/etc/autopilot/config.yaml"))
    await metrics.run()
    metrics.get("prometheus")

Every manager follows the rules, also one that stands by, so that a new leader has the history that an
expression looks back on. Providers and what they need are imported with the first rule: a manager without
rules does not have them in memory.
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pilothouse.api.kind_names import AutopilotRule, Node, PersistentVolumeClaim, Pod
from pilothouse.api.openstorage.v1alpha1 import ActionBudget
from pilothouse.base.clock import Clock
from pilothouse.client.shared_informers import SharedInformers
from pilothouse.client.transport import Transport
from pilothouse.rules.rule_providers import LabelledProvider
from pilothouse.rules.rule_queries import rule_queries
from pilothouse.rules.ruled_objects import RuleSettings, terms_of

if TYPE_CHECKING:
    from pilothouse.rules.providers.embedded import ScrapeCounts
    from pilothouse.rules.providers.provider_set import ProviderSet

_RETRY: Final = 5.0

log = logging.getLogger(__name__)


class RuleMetrics:
    """The providers that a file names, and ``embedded`` where it names none."""

    def __init__(
        self, transport: Transport, informers: SharedInformers, clock: Clock, file: Path | None
    ) -> None:
        self._transport = transport
        self._informers = informers
        self._clock = clock
        self._file = file
        self._providers: ProviderSet | None = None
        self._opened = asyncio.Event()
        self.scrapes: ScrapeCounts | None = None
        """What own scrapes came to; None as long as there is no rule."""

    def get(self, name: str) -> LabelledProvider | None:
        """The provider of this name or type; None if there is none, or the file can't be used."""
        self._open()
        return self._providers.get(name) if self._providers is not None else None

    def budget(self) -> ActionBudget | None:
        """Of all rules together, as far as the file says."""
        return self._providers.budget if self._providers is not None else None

    async def run(self) -> None:
        """Follow the rules, and collect what they need, until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._follow())
            await self._opened.wait()
            assert self._providers is not None
            async with self._providers:
                await self._providers.run()

    async def _follow(self) -> None:
        rules = self._informers.get(AutopilotRule)
        changed = asyncio.Event()
        end = rules.subscribe(lambda _: changed.set())
        try:
            while True:
                await changed.wait()
                changed.clear()
                wanted = self._wanted()
                if self._providers is None and any(wanted.values()):
                    self._open()
                    if self._providers is None:
                        await asyncio.sleep(_RETRY)
                        changed.set()
                        continue
                if self._providers is not None:
                    self._providers.keep(wanted)
        finally:
            end()

    def _wanted(self) -> dict[str, set[str]]:
        """The expressions of the rules, by provider."""
        wanted: dict[str, set[str]] = defaultdict(set)
        for rule in self._informers.get(AutopilotRule).cache.list():
            terms = terms_of(rule, RuleSettings())
            queries = rule_queries(terms.spec) if terms is not None else None
            if queries is not None and queries.refusal is None:
                wanted[queries.provider].update(queries.every)
        return wanted

    def _open(self) -> None:
        if self._providers is not None:
            return
        from pilothouse.rules.providers.autopilot_config import ConfigError
        from pilothouse.rules.providers.embedded import EmbeddedProvider
        from pilothouse.rules.providers.provider_set import providers_from
        from pilothouse.rules.providers.scrape_targets import ScrapeTargets

        caches = [self._informers.get(noun).cache for noun in (Node, Pod, PersistentVolumeClaim)]
        targets = ScrapeTargets(*(cache.list for cache in caches))
        embedded = EmbeddedProvider(self._transport, targets, self._clock)
        try:
            self._providers = providers_from(self._file, embedded)
        except ConfigError as problem:
            log.error("%s; rules have no provider", problem)
            return
        self.scrapes = embedded.counts
        self._opened.set()
