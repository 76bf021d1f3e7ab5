"""Controllers on kinds that are not in our list of nouns."""

from __future__ import annotations

from collections.abc import Iterator

from tests.runtime.conftest import Bench

from pilothouse.api.kind_names import ConfigMap, CustomResourceDefinition, Decision, KindName
from pilothouse.api.objects import Object, Tree
from pilothouse.runtime.controller import controller
from pilothouse.runtime.intents import Create, Intent, SetStatus
from pilothouse.runtime.snapshot import Snapshot

WIDGET = KindName("example.io", "v1", "Widget", "widgets")
FREE = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
DEFINITION: Tree = {
    "metadata": {"name": "widgets.example.io"},
    "spec": {
        "group": "example.io",
        "names": {"kind": "Widget", "plural": "widgets"},
        "scope": "Namespaced",
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "subresources": {"status": {}},
                "schema": {
                    "openAPIV3Schema": {"type": "object", "properties": {"spec": FREE, "status": FREE}}
                },
            }
        ],
    },
}


@controller(WIDGET)
def widgets(widget: Object, world: Snapshot) -> Iterator[Intent]:
    """The status shows the value."""
    if widget.status.get("seen") != widget.spec["value"]:
        yield SetStatus(widget, {"seen": widget.spec["value"]}, because="the value is another")


@controller(ConfigMap)
def dreamers(one: Object, world: Snapshot) -> Iterator[Intent]:
    """Each config map named dream wants something that there is not; the others want another config map."""
    if one.name == "dream":
        unicorn = {"apiVersion": "example.io/v1", "kind": "Unicorn", "metadata": {"name": "u"}}
        yield Create(unicorn, because="there is none")
    elif one.name == "real" and world.find(ConfigMap, one.namespace, "made") is None:
        made = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "made", "namespace": one.namespace},
        }
        yield Create(made, because="it is missing")


def test_a_kind_that_only_its_controller_names_is_written_to(bench: Bench) -> None:
    async def scenario(bench: Bench) -> None:
        await bench.api.create(CustomResourceDefinition, DEFINITION)
        await bench.settle()
        bench.manage([widgets])
        meta = {"name": "a", "namespace": "default"}
        widget = {"apiVersion": "example.io/v1", "kind": "Widget", "metadata": meta, "spec": {"value": 3}}
        await bench.api.create(WIDGET, widget)
        await bench.settle()
        assert (await bench.api.get(WIDGET, "a", "default")).status == {"seen": 3}

    bench.run(scenario)


def test_an_intent_about_an_unknown_kind_fails_alone(bench: Bench) -> None:
    async def scenario(bench: Bench) -> None:
        bench.manage([dreamers])
        for name in ("dream", "real"):
            await bench.api.create(ConfigMap, {"metadata": {"name": name, "namespace": "default"}})
        await bench.settle()
        assert await bench.api.find(ConfigMap, "made", "default") is not None
        record = await bench.api.get(Decision, "dreamers.configmap.dream", "default")
        assert record["outcome"] == "Failed"
        assert "no kind Unicorn of example.io/v1" in record["summary"]

    bench.run(scenario)
