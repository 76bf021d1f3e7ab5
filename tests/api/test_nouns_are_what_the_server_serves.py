"""The names by which clients know the kinds are those under which the server serves them."""

from __future__ import annotations

import pytest

from pilothouse.api import kind_names
from pilothouse.api.kind_names import KindName
from pilothouse.api.registry import resources

SERVED = {
    KindName(kind.group, kind.version, kind.name, kind.plural, kind.namespaced)
    for resource in resources()
    for kind in resource.kinds
}
NAMED = {name: noun for name, noun in vars(kind_names).items() if isinstance(noun, KindName)}


@pytest.mark.parametrize("name", sorted(NAMED))
def test_a_noun_is_served_as_it_is_spelt(name: str) -> None:
    assert NAMED[name] in SERVED


def test_those_with_conditions_are_known() -> None:
    found = set()
    for resource in resources():
        for kind in resource.kinds:
            status = (kind.schema.properties or {}).get("status")
            if kind.status and status is not None and "conditions" in (status.properties or {}):
                found.add((kind.group, kind.version, kind.name))
    named = {noun for noun in NAMED.values() if (noun.group, noun.version, noun.kind) in found}
    assert named == kind_names.CONDITIONED


def test_a_path_has_what_it_is_given() -> None:
    assert kind_names.Pod.path() == "/api/v1/pods"
    assert kind_names.Pod.path("a", "b", "status") == "/api/v1/namespaces/a/pods/b/status"
    assert kind_names.Node.path("ignored", "n") == "/api/v1/nodes/n"
    assert kind_names.StatefulSet.path("a") == "/apis/apps/v1/namespaces/a/statefulsets"
