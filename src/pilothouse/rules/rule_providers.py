"""The providers of metrics, as the watch uses them."""

from __future__ import annotations

from typing import Protocol

from pilothouse.rules.join_labels import JoinLabels
from pilothouse.rules.samples import MetricsProvider


class LabelledProvider(Protocol):
    """A provider, and the labels by which its series are joined to objects."""

    @property
    def provider(self) -> MetricsProvider: ...

    @property
    def labels(self) -> JoinLabels: ...


class NoProviders:
    """None is configured."""

    def get(self, name: str) -> LabelledProvider | None:
        return None


class RuleProviders(Protocol):
    def get(self, name: str) -> LabelledProvider | None:
        """The provider of this name or type; None if there is none."""
