"""``storage.k8s.io``: StorageClass in ``v1``, VolumeAttributesClass in ``v1`` and ``v1beta1``."""

from __future__ import annotations

from pilothouse.api.kubernetes import storage
from pilothouse.api.kubernetes.kind_builders import native
from pilothouse.meta.kind import Kind, Resource, single

GROUP = "storage.k8s.io"


def resources() -> tuple[Resource, ...]:
    classes = native(
        f"{GROUP}/v1",
        "StorageClass",
        plural="storageclasses",
        namespaced=False,
        short_names=("sc",),
        columns=storage.CLASS_COLUMNS,
        validate=storage.validate_class,
    )
    return single(classes), Resource(kinds=(_attributes("v1"), _attributes("v1beta1")), storage="v1")


def _attributes(version: str) -> Kind:
    # The table is derived from a release that knows the beta only; v1 took it over as it was.
    return native(
        f"{GROUP}/{version}",
        "VolumeAttributesClass",
        plural="volumeattributesclasses",
        message="api.storage.v1beta1.VolumeAttributesClass",
        namespaced=False,
        short_names=("vac",),
        columns=storage.ATTRIBUTES_CLASS_COLUMNS,
        validate=storage.validate_attributes_class,
    )
