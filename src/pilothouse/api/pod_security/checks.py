"""The form of a check, and the wording of violations."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from itertools import chain
from typing import Any

import msgspec

Fields = Mapping[str, Any]


class Violation(msgspec.Struct, frozen=True):
    """One thing that a policy forbids, in few words, and where it is in the pod."""

    reason: str
    detail: str

    def __str__(self) -> str:
        return f"{self.reason} ({self.detail})" if self.detail else self.reason


Rule = Callable[[Fields, Fields], Violation | None]
"""Checks a pod's metadata and spec."""


class CheckRevision(msgspec.Struct, frozen=True):
    """A check as it is from a minor version on."""

    since: int
    rule: Rule


class Check(msgspec.Struct, frozen=True):
    """One check of a level, in all its revisions, the oldest first."""

    id: str
    revisions: tuple[CheckRevision, ...]
    overrides: str = ""
    """The baseline check that this one replaces, where it applies."""

    def at(self, minor: int) -> Rule | None:
        """The rule for a version, or None."""
        found = None
        for revision in self.revisions:
            if revision.since <= minor:
                found = revision.rule
        return found


def containers(spec: Fields) -> Iterator[Fields]:
    """Every container of a pod: init, main and ephemeral."""
    return chain(
        spec.get("initContainers") or (),
        spec.get("containers") or (),
        spec.get("ephemeralContainers") or (),
    )


def security_context(of: Fields) -> Fields:
    """The security context of a pod's spec or of a container."""
    found: Fields = of.get("securityContext") or {}
    return found


def plural(word: str, things: Collection[object], words: str = "") -> str:
    return word if len(things) == 1 else words or f"{word}s"


def quoted(texts: Iterable[str]) -> str:
    """``"a", "b"``"""
    return ", ".join(f'"{text}"' for text in texts)


def assigned(name: str, value: str) -> str:
    """``name="value"``"""
    return f"{name}={json.dumps(value, ensure_ascii=False)}"


def named_containers(names: Collection[str]) -> str:
    """``container "a"``, ``containers "a", "b"``"""
    return f"{plural('container', names)} {quoted(names)}"


def setters(pod: bool, names: Collection[str]) -> str:
    """Who sets a field: the pod, some of its containers, or both."""
    return " and ".join([*(["pod"] if pod else []), *([named_containers(names)] if names else [])])
