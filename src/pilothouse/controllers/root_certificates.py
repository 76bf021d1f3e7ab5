"""Every namespace has a config map ``kube-root-ca.crt``: the authorities that pods verify the API server
with.

controllers = [root_certificates(authority_pem), ...]
"""

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
    """The namespace of the config map."""
    if config_map.name == NAME:
        yield "", config_map.namespace


def root_certificates(authority: str) -> Controller:
    """The controller that distributes these certificates (PEM)."""

    @controller(Namespace, also={ConfigMap: its_namespace}, name="root-certificates", standalone=True)
    def decide(namespace: Object, world: Snapshot) -> Iterator[Intent]:
        """Keep the config map of a namespace up to date."""
        if namespace.deleting:
            return
        found = world.find(ConfigMap, namespace.name, NAME)
        data = {FILE: authority}
        if found is None:
            yield Create(
                {
                    "apiVersion": ConfigMap.api_version,
                    "kind": ConfigMap.kind,
                    "metadata": {
                        "name": NAME,
                        "namespace": namespace.name,
                        "annotations": {
                            "kubernetes.io/description": "Certificates by which pods know the API server."
                        },
                    },
                    "data": data,
                },
                because=f"the namespace {namespace.name} has no {NAME}",
            )
        elif found.get("data") != data or found.get("binaryData"):
            stray = {name: None for name in found.get("data") or {} if name != FILE}
            yield PatchObject(
                found,
                {"data": {**stray, **data}, "binaryData": None},
                because=f"{NAME} does not have the authority's certificates",
            )

    return decide
