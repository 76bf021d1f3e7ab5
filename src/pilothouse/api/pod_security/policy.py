"""Levels, versions, and the policy that a namespace's labels define."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

import msgspec

from pilothouse.meta.fields import FieldError, entry

PREFIX: Final = "pod-security.kubernetes.io/"
"""The prefix of namespace labels and of annotations in audit records."""
PRIVILEGED: Final = "privileged"
BASELINE: Final = "baseline"
RESTRICTED: Final = "restricted"
LEVELS: Final = (PRIVILEGED, BASELINE, RESTRICTED)
"""From least to most strict."""
MODES: Final = ("enforce", "audit", "warn")
NEWEST_MINOR: Final = 33
"""Of the Kubernetes release whose checks these are. Later versions are accepted and are the same."""
_VERSION: Final = re.compile(r"v1\.([0-9]|[1-9][0-9]*)")
_LARGEST: Final = 2**63 - 1
_ANY_LEVEL: Final = f"must be one of {', '.join(LEVELS)}"
_ANY_VERSION: Final = 'must be "latest" or "v1.x"'


class PolicyVersion(msgspec.Struct, frozen=True):
    """The Kubernetes release whose checks apply; without a minor version, the latest."""

    minor: int | None = None

    def __str__(self) -> str:
        return "latest" if self.minor is None else f"v1.{self.minor}"


LATEST: Final = PolicyVersion()


class LevelVersion(msgspec.Struct, frozen=True):
    """A level as of a version, written ``baseline:latest``."""

    level: str = PRIVILEGED
    version: PolicyVersion = LATEST

    def __str__(self) -> str:
        return f"{self.level}:{self.version}"

    def is_equivalent(self, other: LevelVersion) -> bool:
        """Whether both allow the same: ``privileged`` is the same in every version."""
        return self == other or self.level == other.level == PRIVILEGED


class NamespacePolicy(msgspec.Struct, frozen=True):
    """What is enforced, recorded and warned about in a namespace."""

    enforce: LevelVersion = LevelVersion()
    audit: LevelVersion = LevelVersion()
    warn: LevelVersion = LevelVersion()

    @property
    def is_privileged(self) -> bool:
        return self.enforce.level == self.audit.level == self.warn.level == PRIVILEGED

    def is_equivalent(self, other: NamespacePolicy) -> bool:
        return (
            self.enforce.is_equivalent(other.enforce)
            and self.audit.is_equivalent(other.audit)
            and self.warn.is_equivalent(other.warn)
        )


PRIVILEGED_POLICY: Final = NamespacePolicy()


def strictness(level: str) -> int:
    return LEVELS.index(level)


def parse_level(text: str) -> tuple[str, str]:
    """A level, and what is wrong with the text: then the level is the strictest."""
    return (text, "") if text in LEVELS else (RESTRICTED, _ANY_LEVEL)


def parse_version(text: str) -> tuple[PolicyVersion, str]:
    """A version, and what is wrong with the text: then the version is the latest."""
    if text == "latest":
        return LATEST, ""
    match = _VERSION.fullmatch(text)
    if match is None or int(match[1]) > _LARGEST:
        return LATEST, _ANY_VERSION
    return PolicyVersion(int(match[1])), ""


def policy_of(
    labels: Mapping[str, str], defaults: NamespacePolicy
) -> tuple[NamespacePolicy, list[FieldError]]:
    """The policy of a namespace with these labels, and what is wrong with them.

    An unreadable level means ``restricted`` for enforce and ``privileged`` for audit and warn. A namespace
    that sets enforce and not warn warns at no lower level than it enforces.
    """
    problems: list[FieldError] = []
    modes: dict[str, LevelVersion] = {}
    for mode in MODES:
        modes[mode] = _mode(mode, labels, getattr(defaults, mode), problems)
    enforce, warn = modes["enforce"], modes["warn"]
    named = labels.get(f"{PREFIX}enforce") in LEVELS and f"{PREFIX}warn" not in labels
    if named and strictness(enforce.level) > strictness(warn.level):
        version = warn.version if f"{PREFIX}warn-version" in labels else enforce.version
        modes["warn"] = LevelVersion(enforce.level, version)
    return NamespacePolicy(**modes), problems


def _mode(
    mode: str, labels: Mapping[str, str], default: LevelVersion, problems: list[FieldError]
) -> LevelVersion:
    level, version = default.level, default.version
    name = f"{PREFIX}{mode}"
    if (text := labels.get(name)) is not None:
        level, wrong = parse_level(text)
        if wrong:
            problems.append(FieldError.invalid(entry("metadata.labels", name), text, wrong))
            level = RESTRICTED if mode == "enforce" else PRIVILEGED
    name = f"{PREFIX}{mode}-version"
    if (text := labels.get(name)) is not None:
        version, wrong = parse_version(text)
        if wrong:
            problems.append(FieldError.invalid(entry("metadata.labels", name), text, wrong))
    return LevelVersion(level, version)
