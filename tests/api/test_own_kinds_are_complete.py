"""What kubectl, OpenAPI and CRDs need to know of each kind of ours is there, and true."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pilothouse.api.registry import own_resources
from pilothouse.meta.crd import crd_schema
from pilothouse.meta.json_path import compile_path
from pilothouse.meta.kind import Kind, Resource
from pilothouse.meta.schema.model import UNSET, Schema
from pilothouse.meta.schema.structural_schemas import structural_problems

KINDS = [kind for resource in own_resources() for kind in resource.kinds]
EACH_KIND = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: f"{kind.name}-{kind.version}")

EXPECTED = {
    ("navigator.jetstack.io", "elasticsearchclusters"): (
        True,
        {"v1alpha1", "v1beta1"},
        {"esc", "elasticsearch"},
    ),
    ("navigator.jetstack.io", "cassandraclusters"): (True, {"v1alpha1", "v1beta1"}, {"cassandra"}),
    ("navigator.jetstack.io", "pilots"): (True, {"v1alpha1", "v1beta1"}, set()),
    ("autopilot.k0sproject.io", "plans"): (False, {"v1beta2"}, set()),
    ("autopilot.k0sproject.io", "controlnodes"): (False, {"v1beta2"}, set()),
    ("autopilot.k0sproject.io", "updateconfigs"): (False, {"v1beta2"}, set()),
    ("autopilot.libopenstorage.org", "autopilotrules"): (False, {"v1alpha1"}, {"ar"}),
    ("autopilot.libopenstorage.org", "autopilotruleobjects"): (True, {"v1alpha1"}, {"aro"}),
    ("autopilot.libopenstorage.org", "actionapprovals"): (True, {"v1alpha1"}, set()),
    ("autopilot.libopenstorage.org", "applicationpolicies"): (False, {"v1alpha1"}, {"ap"}),
    ("autopilot.libopenstorage.org", "applicationactions"): (True, {"v1alpha1"}, {"aa"}),
    ("pilothouse.io", "decisions"): (True, {"v1alpha1"}, set()),
    ("pilothouse.io", "questions"): (True, {"v1alpha1"}, set()),
    ("pilothouse.io", "storagepools"): (False, {"v1alpha1"}, set()),
}


def nodes(schema: Schema, path: str = "") -> Iterator[tuple[str, Schema]]:
    """Every field below a schema, with a path for messages."""
    for name, child in schema.properties.items():
        yield f"{path}.{name}", child
        yield from nodes(child, f"{path}.{name}")
    for inner, mark in ((schema.items, "[]"), (schema.additional, "{}")):
        if inner is not None:
            yield from nodes(inner, path + mark)


def test_names_scopes_and_versions() -> None:
    found = {
        (resource.group, resource.plural): (
            resource.stored.namespaced,
            set(resource.by_version),
            set(resource.stored.short_names),
        )
        for resource in own_resources()
    }
    assert found == EXPECTED


def test_what_people_look_after_is_listed_together_without_records_and_questions() -> None:
    listed = {resource.plural for resource in own_resources() if "pilothouse" in resource.stored.categories}
    assert listed == {plural for _, plural in EXPECTED} - {"decisions", "questions"}


def test_short_names_are_taken_once_and_are_no_plurals() -> None:
    taken = [name for resource in own_resources() for name in resource.stored.short_names]
    assert len(taken) == len(set(taken))
    assert not set(taken) & {resource.plural for resource in own_resources()}


def test_the_hub_is_preferred_and_stored() -> None:
    for resource in own_resources():
        if len(resource.kinds) > 1:
            assert (resource.storage, resource.kinds[0].version) == ("v1beta1", "v1beta1")


@EACH_KIND
def test_every_field_is_explained(kind: Kind) -> None:
    assert kind.schema.description
    assert [path for path, node in nodes(kind.schema) if not node.description] == []


@EACH_KIND
def test_columns_and_selectable_fields_lead_somewhere(kind: Kind) -> None:
    known = {path.replace("[]", "").replace("{}", "") for path, _ in nodes(kind.schema)}
    maps = {path for path, node in nodes(kind.schema) if node.additional is not None}
    for path in [column.path for column in kind.columns] + list(kind.selectable.values()):
        compile_path(path)
        plain = "".join(part.partition("]")[2] if i else part for i, part in enumerate(path.split("[")))
        start, anywhere_below, end = plain.partition("..")
        if anywhere_below:
            assert any(field.startswith(f"{start}.") and field.endswith(f".{end}") for field in known), path
        else:
            assert plain in known or plain.rpartition(".")[0] in maps, path


@EACH_KIND
def test_columns_tell_a_story_and_an_age(kind: Kind) -> None:
    shown = [column for column in kind.columns if column.priority == 0]
    assert len(shown) >= 2
    assert any(column.type == "date" for column in shown)
    assert all(column.description for column in kind.columns)


@EACH_KIND
def test_a_kind_with_a_status_has_a_status_subresource(kind: Kind) -> None:
    assert kind.status == ("status" in kind.schema.properties)


@EACH_KIND
def test_statuses_demand_nothing_at_the_top(kind: Kind) -> None:
    if kind.status:
        assert kind.schema.properties["status"].required == ()
        assert "status" not in kind.schema.required


def test_components_of_one_name_are_one_thing() -> None:
    seen: dict[str, Schema] = {}
    for kind in KINDS:
        for _, node in nodes(kind.schema):
            if node.ref and node.ref.partition(".k8s.")[1] == "":
                known = seen.setdefault(node.ref, node)
                assert set(known.properties) == set(node.properties)


@pytest.mark.parametrize(
    "resource", [r for r in own_resources() if len(r.kinds) > 1], ids=lambda resource: resource.plural
)
def test_what_only_the_hub_has_is_not_defaulted(resource: Resource) -> None:
    """Else an object written through v1alpha1 would change when it is read and written back."""
    hub, old = (resource.by_version[version].schema for version in ("v1beta1", "v1alpha1"))
    assert list(_defaulted_beyond(hub, old, "")) == []


def _defaulted_beyond(hub: Schema, old: Schema, path: str) -> Iterator[str]:
    for name, node in hub.properties.items():
        known = old.properties.get(name)
        if known is None:
            if node.default is not UNSET:
                yield f"{path}.{name}"
        else:
            yield from _defaulted_beyond(node, known, f"{path}.{name}")
    for ours, theirs in ((hub.items, old.items), (hub.additional, old.additional)):
        if ours is not None and theirs is not None:
            yield from _defaulted_beyond(ours, theirs, path)


@EACH_KIND
def test_schemas_are_structural(kind: Kind) -> None:
    assert structural_problems(crd_schema(kind.schema), "openAPIV3Schema") == []
