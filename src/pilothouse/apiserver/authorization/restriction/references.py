"""What a pod refers to: the objects that its node must read in order to run it. Pure.

    references_of(pod)     # {("secrets", "db-password"), ("serviceaccounts", "db"), …}

Sources: environment, volumes, pull secrets, claims, and the claims of ephemeral volumes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pilothouse.meta.kind import Object

Reference = tuple[str, str]
"""Plural and name of an object in the pod's namespace."""

SECRETS, CONFIG_MAPS, CLAIMS, ACCOUNTS = "secrets", "configmaps", "persistentvolumeclaims", "serviceaccounts"
_CONTAINERS = ("containers", "initContainers", "ephemeralContainers")


def references_of(pod: Object) -> frozenset[Reference]:
    spec = pod.get("spec") or {}
    found = [*_of_environment(spec), *_of_volumes(spec, pod["metadata"].get("name", ""))]
    found += [(SECRETS, _name(each)) for each in spec.get("imagePullSecrets") or ()]
    found.append((ACCOUNTS, spec.get("serviceAccountName") or ""))
    return frozenset(reference for reference in found if reference[1])


def audiences_of(pod: Object) -> frozenset[str]:
    """The audiences of the pod's projected tokens; the empty text is this server."""
    return frozenset(
        token.get("audience") or ""
        for volume in (pod.get("spec") or {}).get("volumes") or ()
        for source in (volume.get("projected") or {}).get("sources") or ()
        if (token := source.get("serviceAccountToken")) is not None
    )


def _of_environment(spec: Object) -> Iterator[Reference]:
    for field in _CONTAINERS:
        for container in spec.get(field) or ():
            for each in container.get("envFrom") or ():
                yield SECRETS, _name(each.get("secretRef"))
                yield CONFIG_MAPS, _name(each.get("configMapRef"))
            for each in container.get("env") or ():
                source = each.get("valueFrom") or {}
                yield SECRETS, _name(source.get("secretKeyRef"))
                yield CONFIG_MAPS, _name(source.get("configMapKeyRef"))


def _of_volumes(spec: Object, pod: str) -> Iterator[Reference]:
    for volume in spec.get("volumes") or ():
        for kind, source in volume.items():
            if not isinstance(source, dict):
                continue
            match kind:
                case "secret" | "azureFile":
                    yield SECRETS, source.get("secretName") or ""
                case "configMap":
                    yield CONFIG_MAPS, _name(source)
                case "persistentVolumeClaim":
                    yield CLAIMS, source.get("claimName") or ""
                case "ephemeral":
                    yield CLAIMS, f"{pod}-{volume.get('name', '')}"
                case "projected":
                    for each in source.get("sources") or ():
                        yield SECRETS, _name(each.get("secret"))
                        yield CONFIG_MAPS, _name(each.get("configMap"))
                case _:
                    yield SECRETS, _name(source.get("secretRef"))
                    yield SECRETS, _name(source.get("nodePublishSecretRef"))


def _name(reference: Any) -> str:
    return (reference or {}).get("name") or ""
