"""Keeps a config map ``kube-root-ca.crt`` in every namespace: the authorities that pods verify the API server
with."""

from __future__ import annotations

from collections.abc import Iterator

from pilothouse.api.kind_names import ConfigMap, Namespace
from pilothouse.api.objects import Object
from pilothouse.runtime.controller import Controller, Names, controller
from pilothouse.runtime.intents import Create, Intent, PatchObject
from pilothouse.runtime.snapshot import Snapshot

NAME = "kube-root-ca.crt"
FILE = "ca.crt"


def its_namespace(config_map: Object, world: Snapshot) -> Names:
    if config_map.name == NAME:
        yield "", config_map.namespace


def root_certificates(authority: str) -> Controller:
    """``authority``: PEM."""

    @controller(Namespace, also={ConfigMap: its_namespace}, name="root-certificates", standalone=True)
    def decide(namespace: Object, world: Snapshot) -> Iterator[Intent]:
        """Keep the config map of a namespace up to date."""
        if namespace.deleting:
            return
        found = world.find(ConfigMap, namespace.name, NAME)
        data = {FILE: authority}
        if found is None:
            description = "Certificates by which pods know the API server."
            config_map = {
                "apiVersion": ConfigMap.api_version,
                "kind": ConfigMap.kind,
                "metadata": {
                    "name": NAME,
                    "namespace": namespace.name,
                    "annotations": {"kubernetes.io/description": description},
                },
                "data": data,
            }
            yield Create(config_map, because=f"the namespace {namespace.name} has no {NAME}")
        elif found.get("data") != data or found.get("binaryData"):
            stray = {name: None for name in found.get("data") or {} if name != FILE}
            yield PatchObject(
                found,
                {"data": {**stray, **data}, "binaryData": None},
                because=f"{NAME} does not have the authority's certificates",
            )

    return decide
