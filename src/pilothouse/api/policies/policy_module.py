"""The descriptor of a module: its policies, with their parameters and the metrics that they need.

    MEMCACHED = PolicyModule(
        name="memcached",
        summary="memcached servers",
        policies=(volume_resize(), PolicyTemplate(name="evictions", build=evictions, …)),
    )

A package registers it as an entry point of the group ``pilothouse.policies``, by the same name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from pilothouse.api.policies.policy_parameters import ParameterValue, PolicyParameter

Values = Mapping[str, ParameterValue]
RuleFields = dict[str, Any]
"""Fields of an AutopilotRule's spec, as in JSON."""


class MetricSource(msgspec.Struct, frozen=True):
    """Metrics that a policy reads, and the program that exports them."""

    exporter: str
    """Such as memcached_exporter."""
    metrics: tuple[str, ...]
    optional: bool = False
    """Whether the policy does without them where there are none."""


class PolicyTemplate(msgspec.Struct, frozen=True, kw_only=True):
    """A ready-made rule."""

    name: str
    summary: str
    """What it does, in a sentence without a subject: Grows a volume before it is full."""
    build: Callable[[Values], RuleFields]
    """The spec of its rule, without selectors and enforcement. Pure."""
    parameters: tuple[PolicyParameter, ...] = ()
    sources: tuple[MetricSource, ...] = ()
    enforcement: str = ""
    """What ``enforcement`` is where an ApplicationPolicy says nothing."""
    asks: bool = False
    """Whether a person decides in every case: it takes approvalRequired and recommend alone."""


class PolicyModule(msgspec.Struct, frozen=True, kw_only=True):
    """The policies of an application."""

    name: str
    """The value of ``spec.application`` in ApplicationPolicies."""
    summary: str
    policies: tuple[PolicyTemplate, ...]
    tried: str = ""
    """What its policies were tried on."""

    def find(self, name: str) -> PolicyTemplate | None:
        return next((each for each in self.policies if each.name == name), None)
