"""Which permissions contain others, for the prevention of escalation.

    missing(held, wanted)        # the parts of ``wanted`` that no rule of ``held`` covers
    describe(missing(...))       # in Kubernetes' words, one line each

Wanted rules are split into atoms: one verb, group, resource and at most one name; or one verb and path. A
single rule covers an atom or none does, so the result is exact. Only a star covers a star.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from itertools import product

from pilothouse.apiserver.authorization.rbac.rules import ANY, PolicyRule, url_covers

_UNNAMED: tuple[tuple[str, ...], ...] = ((),)


MOST_ATOMS = 100_000
"""Limit of atoms: a rule is the product of its lists, so a few kilobytes can be billions."""


def count_atoms(rules: Iterable[PolicyRule]) -> int:
    """The number of atoms, computed without making them."""
    return sum(
        len(rule.verbs) * (len(rule.groups) * len(rule.resources) * max(1, len(rule.names)) + len(rule.urls))
        for rule in rules
    )


def missing(held: Sequence[PolicyRule], wanted: Iterable[PolicyRule]) -> list[PolicyRule]:
    return [atom for rule in wanted for atom in atoms(rule) if not any(_covers(each, atom) for each in held)]


def atoms(rule: PolicyRule) -> Iterator[PolicyRule]:
    names = tuple((name,) for name in rule.names) or _UNNAMED
    for group, resource, verb, name in product(rule.groups, rule.resources, rule.verbs, names):
        yield PolicyRule((verb,), (group,), (resource,), name)
    for url, verb in product(rule.urls, rule.verbs):
        yield PolicyRule((verb,), urls=(url,))


def describe(rules: Iterable[PolicyRule]) -> str:
    """Atoms in lines for people, those that differ only in their verb in one."""
    verbs: dict[PolicyRule, list[str]] = {}
    lines = set()
    for rule in rules:
        if rule.urls:
            lines.add(_line(rule))
        else:
            about = PolicyRule((), rule.groups, rule.resources, rule.names)
            verbs.setdefault(about, []).extend(rule.verbs)
    for about, those in verbs.items():
        lines.add(_line(PolicyRule(tuple(those), about.groups, about.resources, about.names)))
    return "\n".join(sorted(lines))


def quoted(values: Iterable[str]) -> str:
    """``["a" "b"]``: how Kubernetes' messages show lists."""
    return f"[{' '.join(json.dumps(value, ensure_ascii=False) for value in values)}]"


def _covers(held: PolicyRule, atom: PolicyRule) -> bool:
    if atom.verbs[0] not in held.verbs and ANY not in held.verbs:
        return False
    if atom.urls:
        return not held.names and any(url_covers(url, atom.urls[0]) for url in held.urls)
    if atom.groups[0] not in held.groups and ANY not in held.groups:
        return False
    if held.names and not (atom.names and atom.names[0] in held.names):
        return False
    return _covers_resource(held.resources, atom.resources[0])


def _covers_resource(held: tuple[str, ...], resource: str) -> bool:
    if ANY in held or resource in held:
        return True
    _, slash, subresource = resource.partition("/")
    return bool(slash) and f"*/{subresource}" in held


def _line(rule: PolicyRule) -> str:
    parts = (
        ("APIGroups", rule.groups),
        ("Resources", rule.resources),
        ("NonResourceURLs", rule.urls),
        ("ResourceNames", rule.names),
        ("Verbs", rule.verbs),
    )
    return "{" + ", ".join(f"{name}:{quoted(values)}" for name, values in parts if values) + "}"
