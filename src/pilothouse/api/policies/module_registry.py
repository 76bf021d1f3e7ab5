"""The registered modules: ours, and those of installed packages.

A package adds one by an entry point of the group ``pilothouse.policies``. Controller-managers expand
ApplicationPolicies, so they have to find it; commands do too, to show it.
"""

from __future__ import annotations

from functools import cache
from importlib.metadata import entry_points
from typing import Final

from pilothouse.api.policies.cassandra_policies import CASSANDRA_POLICIES
from pilothouse.api.policies.elasticsearch_policies import ELASTICSEARCH_POLICIES
from pilothouse.api.policies.kafka_policies import KAFKA_POLICIES
from pilothouse.api.policies.policy_module import PolicyModule
from pilothouse.api.policies.postgres_policies import POSTGRES_POLICIES
from pilothouse.api.policies.redis_policies import REDIS_POLICIES
from pilothouse.meta import names

GROUP: Final = "pilothouse.policies"
BUILT_IN: Final = (
    CASSANDRA_POLICIES,
    ELASTICSEARCH_POLICIES,
    KAFKA_POLICIES,
    POSTGRES_POLICIES,
    REDIS_POLICIES,
)


class InvalidModule(Exception):
    """An entry point of another package can't be used."""


@cache
def modules() -> tuple[PolicyModule, ...]:
    """All of them, by name. Raises ``InvalidModule``."""
    return tuple(sorted((*BUILT_IN, *_installed()), key=lambda each: each.name))


def find_module(name: str) -> PolicyModule | None:
    """The module of this name. Raises ``InvalidModule``, but not for one of ours."""
    ours = next((each for each in BUILT_IN if each.name == name), None)
    return ours or next((each for each in modules() if each.name == name), None)


def _installed() -> list[PolicyModule]:
    ours = {each.name for each in BUILT_IN}
    found: dict[str, PolicyModule] = {}
    for point in entry_points(group=GROUP):
        if point.name in ours or point.name in found:
            raise InvalidModule(f"entry point {point.value}: there is a module {point.name} already")
        if wrong := names.label(point.name):
            raise InvalidModule(f"entry point {point.value}: {point.name!r}: {wrong}")
        try:
            described = point.load()
        except (ImportError, AttributeError) as problem:
            raise InvalidModule(f"entry point {point.value} can't be loaded: {problem}") from problem
        if not isinstance(described, PolicyModule) or described.name != point.name:
            raise InvalidModule(f"entry point {point.value} is not a PolicyModule with the name {point.name}")
        found[point.name] = described
    return list(found.values())
