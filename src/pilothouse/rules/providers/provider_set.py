"""The configured providers, by name; the file that names them is followed.

    async with providers_from(Path("/etc/autopilot/config.yaml"), embedded) as providers:
        providers.keep({"prometheus": ["kubelet_volume_stats_used_bytes > 5"]})
        found = providers.get("prometheus")
        await providers.run()

A rule names a provider or a type of provider, of which it gets the first. Where none is configured,
``embedded`` answers to every name.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Final, Protocol

import msgspec

from pilothouse.api.openstorage.v1alpha1 import ActionBudget
from pilothouse.rules.join_labels import DEFAULT_LABELS, EMBEDDED_LABELS, JoinLabels
from pilothouse.rules.providers.autopilot_config import (
    AutopilotConfig,
    ConfigError,
    ProviderConfig,
    read_config,
)
from pilothouse.rules.providers.prometheus import PrometheusProvider, PrometheusSettings, settings_of
from pilothouse.rules.samples import Answer, MetricsProvider, QueryFailure

PROMETHEUS: Final = "prometheus"
EMBEDDED: Final = "embedded"
_FOLLOW_SECONDS: Final = 5.0

log = logging.getLogger(__name__)


class SeriesCollector(MetricsProvider, Protocol):
    """A provider that has to collect what it will be asked about."""

    def keep(self, expressions: Collection[str]) -> None:
        """Collect what these expressions select, as far back as they look, and nothing else."""

    async def run(self) -> None:
        """Collect until cancelled."""


class NamedProvider(msgspec.Struct, frozen=True):
    """A provider under the name that rules use."""

    name: str
    type: str
    provider: MetricsProvider
    labels: JoinLabels = DEFAULT_LABELS
    """By which its series are joined to objects."""


class ProviderSet:
    """All providers. ``get`` and ``keep`` may be used at any time; ``run`` follows the file and collects."""

    def __init__(self, file: Path | None, embedded: SeriesCollector | None) -> None:
        """Raises ``ConfigError``."""
        self._file = file
        self._embedded = embedded
        self._seen: object = None
        self._named: dict[str, NamedProvider] = {}
        self._prometheus: dict[PrometheusSettings, PrometheusProvider] = {}
        self._retired: list[PrometheusProvider] = []
        self._wanted: Mapping[str, Collection[str]] = {}
        self._budget: ActionBudget | None = None
        self.problem = ""
        """Why the file as it is now can't be used; the last one that could is in force."""
        self._load()

    async def __aenter__(self) -> ProviderSet:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    @property
    def names(self) -> tuple[str, ...]:
        """Of the configured providers."""
        return tuple(self._named)

    def get(self, name: str) -> NamedProvider | None:
        """The provider of this name, or the first of this type; None if there is none."""
        if found := self._named.get(name):
            return found
        typed = (each for each in self._named.values() if each.type == name)
        if found := next(typed, None):
            return found
        if self._embedded is not None and (not self._named or name == EMBEDDED):
            return NamedProvider(name, EMBEDDED, self._embedded, EMBEDDED_LABELS)
        return None

    @property
    def budget(self) -> ActionBudget | None:
        """Of all rules together, as far as the file says."""
        return self._budget

    def keep(self, wanted: Mapping[str, Collection[str]]) -> None:
        """All expressions of the present rules, by the name of their provider."""
        self._wanted = wanted
        if self._embedded is None:
            return
        kept: set[str] = set()
        for name, expressions in wanted.items():
            found = self.get(name)
            if found is not None and found.provider is self._embedded:
                kept.update(expressions)
        self._embedded.keep(kept)

    def refresh(self) -> bool:
        """Read the file if it has changed. True if the providers have changed."""
        if self._fingerprint() == self._seen:
            return False
        try:
            self._load()
        except ConfigError as problem:
            if self.problem != str(problem):
                log.error("%s; the providers stay as they were", problem)
            self.problem = str(problem)
            return False
        self.problem = ""
        self.keep(self._wanted)
        return True

    async def run(self) -> None:
        """Follow the file, and collect what ``embedded`` needs, until cancelled."""
        async with asyncio.TaskGroup() as group:
            if self._embedded is not None:
                group.create_task(self._embedded.run())
            while True:
                await asyncio.sleep(_FOLLOW_SECONDS)
                self.refresh()
                await self._close_retired()

    async def close(self) -> None:
        """Close connections."""
        self._retired += self._prometheus.values()
        self._prometheus = {}
        await self._close_retired()

    async def _close_retired(self) -> None:
        retired, self._retired = self._retired, []
        for each in retired:
            await each.close()

    def _fingerprint(self) -> object:
        """What changes when the file does; a link that is turned, as in a mounted ConfigMap, counts."""
        if self._file is None:
            return None
        try:
            found = self._file.stat()
        except OSError as problem:
            return problem.errno
        return found.st_mtime_ns, found.st_ino, found.st_size

    def _load(self) -> None:
        """Raises ``ConfigError``, and changes nothing then but what was seen."""
        self._seen = self._fingerprint()
        if self._file is None or isinstance(self._seen, int):
            # `up` has a place for the file, where there need not be one.
            config = AutopilotConfig()
        else:
            config = read_config(self._file)
        settings = {each.name: settings_of(each) for each in config.providers if each.type == PROMETHEUS}
        for warning in config.warnings:
            log.warning("%s: %s", self._file, warning)
        kept = {each: self._prometheus.get(each) or PrometheusProvider(each) for each in settings.values()}
        self._retired += [known for each, known in self._prometheus.items() if each not in kept]
        self._prometheus = kept
        self._named = {each.name: self._provider(each, settings) for each in config.providers}
        self._budget = config.budget

    def _provider(self, config: ProviderConfig, settings: Mapping[str, PrometheusSettings]) -> NamedProvider:
        provider: MetricsProvider
        if config.type == PROMETHEUS:
            provider = self._prometheus[settings[config.name]]
        elif config.type == EMBEDDED and self._embedded is not None:
            provider = self._embedded
        else:
            provider = _Unsupported(config.type)
        labels = EMBEDDED_LABELS if config.type == EMBEDDED else config.labels
        return NamedProvider(config.name, config.type, provider, labels)


class _Unsupported:
    """Stands for a provider of a type that is known, and can't be asked."""

    def __init__(self, type: str) -> None:
        self._failure = QueryFailure("NotSupported", f"providers of type {type} are not supported")

    async def query(self, expressions: Sequence[str], now: float) -> Mapping[str, Answer]:
        return dict.fromkeys(expressions, self._failure)


def providers_from(file: Path | None, embedded: SeriesCollector | None) -> ProviderSet:
    """The providers that a file names, which need not exist; ``embedded`` where it names none. Raises
    ``ConfigError``."""
    return ProviderSet(file, embedded)
