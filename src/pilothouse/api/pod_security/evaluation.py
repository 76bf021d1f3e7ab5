"""Evaluates a pod by all checks of a level.

evaluate(LevelVersion("baseline"), pod["metadata"], pod["spec"]).allowed
"""

from __future__ import annotations

from functools import cache
from typing import Final

import msgspec

from pilothouse.api.pod_security.baseline import BASELINE_CHECKS
from pilothouse.api.pod_security.checks import Fields, Rule, Violation
from pilothouse.api.pod_security.policy import BASELINE, PRIVILEGED, LevelVersion
from pilothouse.api.pod_security.restricted import RESTRICTED_CHECKS

_NEWEST: Final = max(
    revision.since for check in (*BASELINE_CHECKS, *RESTRICTED_CHECKS) for revision in check.revisions
)
"""The last minor version that changed a check. Later ones, and ``latest``, are the same."""


class Evaluation(msgspec.Struct, frozen=True):
    """What a policy has against a pod."""

    violations: tuple[Violation, ...] = ()

    @property
    def allowed(self) -> bool:
        return not self.violations

    @property
    def reason(self) -> str:
        """In short: the same for pods that violate the same checks."""
        return ", ".join(each.reason for each in self.violations)

    @property
    def detail(self) -> str:
        """With the names of offending parts."""
        return ", ".join(map(str, self.violations))


_ALLOWED: Final = Evaluation()


def evaluate(policy: LevelVersion, metadata: Fields, spec: Fields) -> Evaluation:
    """Whether a pod, or a template's pods, fit a level."""
    if policy.level == PRIVILEGED:
        return _ALLOWED
    minor = policy.version.minor
    rules = _rules(policy.level, _NEWEST if minor is None else min(minor, _NEWEST))
    found = tuple([violation for rule in rules if (violation := rule(metadata, spec)) is not None])
    return Evaluation(found) if found else _ALLOWED


@cache
def _rules(level: str, minor: int) -> tuple[Rule, ...]:
    """Baseline checks first, without those that a check of the level replaces."""
    checks = () if level == BASELINE else RESTRICTED_CHECKS
    overridden = {check.overrides for check in checks if check.at(minor) is not None}
    chosen = [check for check in BASELINE_CHECKS if check.id not in overridden]
    return tuple([rule for check in (*chosen, *checks) if (rule := check.at(minor)) is not None])
