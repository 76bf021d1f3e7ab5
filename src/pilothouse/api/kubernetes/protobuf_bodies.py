"""Reads protobuf request bodies of Kubernetes' kinds into objects.

    read(b"k8s\\0...")     # {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "t"}}

Clients built on Kubernetes' own libraries send these for every kind known at compile time.
"""

from __future__ import annotations

from pilothouse.api.kubernetes.table import messages, protobuf_name
from pilothouse.meta.kind import Object
from pilothouse.meta.protobuf import decode, unwrap

_GROUPS = {
    "": "api.core",
    "apps": "api.apps",
    "batch": "api.batch",
    "policy": "api.policy",
    "autoscaling": "api.autoscaling",
    "storage.k8s.io": "api.storage",
    "coordination.k8s.io": "api.coordination",
    "events.k8s.io": "api.events",
    "discovery.k8s.io": "api.discovery",
    "rbac.authorization.k8s.io": "api.rbac",
    "authentication.k8s.io": "api.authentication",
    "authorization.k8s.io": "api.authorization",
    "certificates.k8s.io": "api.certificates",
    "apiextensions.k8s.io": "apiextensions-apiserver.pkg.apis.apiextensions",
}
_DELETE_OPTIONS = protobuf_name("apimachinery.pkg.apis.meta.v1.DeleteOptions")


def table_name(group: str, version: str, kind: str) -> str:
    """The table's name of a kind's message; empty for groups that are not Kubernetes' own."""
    package = _GROUPS.get(group, "")
    return f"{package}.{version}.{kind}" if package else ""


def message_of(api_version: str, kind: str) -> str:
    """The protobuf message of a kind, or the empty string."""
    if kind == "DeleteOptions":
        # Every group and version has it under its own name.
        return _DELETE_OPTIONS
    group, _, version = api_version.rpartition("/")
    name = table_name(group, version, kind)
    if name == "api.storage.v1.VolumeAttributesClass":
        name = "api.storage.v1beta1.VolumeAttributesClass"
    full = protobuf_name(name) if name else ""
    return full if full in messages() else ""


def read(body: bytes) -> Object:
    """The object in a body. Raises ``ValueError`` if it is malformed or of an unknown kind."""
    envelope = unwrap(body)
    message = message_of(envelope.api_version, envelope.kind)
    if not message:
        raise ValueError(
            f'no protobuf message is known for kind "{envelope.kind}" in version "{envelope.api_version}"'
        )
    obj = decode(envelope.raw, message, messages())
    return {"apiVersion": envelope.api_version, "kind": envelope.kind, **obj}
