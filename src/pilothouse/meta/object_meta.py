"""``apiVersion``, ``kind`` and ``metadata``, which every object has.

    class Database(ApiObject): ...                     # a kind of our own, as a Struct
    object_schema({"spec": spec, "status": status})    # a kind given as schemas, such as a CRD's

``OBJECT_META`` is the schema of every ``metadata``; apply and strategic merge rely on its list types.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any, Final

from pilothouse.meta.schema.model import Schema
from pilothouse.meta.schema.struct_schemas import Fields, Time, doc, field, schema_of

PACKAGE: Final = "io.k8s.apimachinery.pkg.apis.meta.v1"


class OwnerReference(Fields):
    """Names an object that this one belongs to, so that it goes when its last owner is gone."""

    __component__ = f"{PACKAGE}.OwnerReference"

    api_version: Annotated[str, doc("The owner's API group and version.")]
    kind: Annotated[str, doc("The owner's kind.")]
    name: Annotated[str, doc("The owner's name.")]
    uid: Annotated[str, doc("The owner's uid.")]
    controller: Annotated[bool, doc("Set if this owner is the one that manages the object.")] = False
    block_owner_deletion: Annotated[
        bool, doc("Set if an owner that is deleted in the foreground has to wait for this object.")
    ] = False


class ManagedFieldsEntry(Fields):
    """The fields that one manager has set, and how."""

    __component__ = f"{PACKAGE}.ManagedFieldsEntry"

    manager: Annotated[str, doc("Who set the fields.")] = ""
    operation: Annotated[str, doc("How they were set: Apply or Update.")] = ""
    api_version: Annotated[str, doc("The version in which the fields are written down.")] = ""
    time: Annotated[Time | None, doc("When the set of fields last changed.")] = None
    fields_type: Annotated[str, doc("The notation of the fields; only FieldsV1 exists.")] = ""
    fields_v1: Annotated[dict[str, Any], doc("The fields, as a tree of f:, k:, v: and i: keys.")] = field(
        name="fieldsV1", default_factory=dict
    )
    subresource: Annotated[
        str, doc("The subresource through which they were set; empty for the object itself.")
    ] = ""


class ObjectMeta(Fields):
    """Identity and bookkeeping that every stored object has."""

    __component__ = f"{PACKAGE}.ObjectMeta"

    name: Annotated[str, doc("Unique within the namespace and kind; it can't be changed.")] = ""
    generate_name: Annotated[
        str, doc("The prefix of a name that the server generates if no name is given.")
    ] = ""
    namespace: Annotated[
        str, doc("The namespace in which the name is unique; empty for cluster-wide kinds.")
    ] = ""
    self_link: Annotated[str, doc("Deprecated; never set.")] = ""
    uid: Annotated[str, doc("Unique over space and time; set by the server.")] = ""
    resource_version: Annotated[
        str,
        doc("Changes with every write; opaque to clients, who send it back to detect conflicting writes."),
    ] = ""
    generation: Annotated[int, doc("Counts the changes of the desired state; kept by the server.")] = 0
    creation_timestamp: Annotated[
        Time | None, doc("CreationTimestamp is a timestamp of when the server created the object.")
    ] = None
    deletion_timestamp: Annotated[
        Time | None,
        doc("When the deletion of the object was requested; it is removed with its last finalizer."),
    ] = None
    deletion_grace_period_seconds: Annotated[
        int | None, doc("How long the object may take to terminate gracefully.")
    ] = None
    labels: Annotated[dict[str, str], doc("Short keys and values to select objects by.")] = field(
        default_factory=dict
    )
    annotations: Annotated[dict[str, str], doc("Keys and values that tools keep with the object.")] = field(
        default_factory=dict
    )
    owner_references: Annotated[
        tuple[OwnerReference, ...],
        doc(
            "The objects that this one belongs to; at most one of them is its controller.",
            map_keys=("uid",),
            merge_key="uid",
            merge_strategy="merge",
        ),
    ] = ()
    finalizers: Annotated[
        tuple[str, ...],
        doc(
            "Names of controllers that have to clean up before the object is deleted; each removes its own "
            "entry.",
            list_type="set",
            merge_strategy="merge",
        ),
    ] = ()
    managed_fields: Annotated[
        tuple[ManagedFieldsEntry, ...],
        doc("Which manager has set which fields; kept by the server.", list_type="atomic"),
    ] = ()


class ListMeta(Fields):
    """What a list says about itself."""

    __component__ = f"{PACKAGE}.ListMeta"

    self_link: Annotated[str, doc("Deprecated; never set.")] = ""
    resource_version: Annotated[str, doc("The state of the store that the list shows.")] = ""
    continue_: Annotated[str, doc("Ask for the next page with this token.")] = field(
        name="continue", default=""
    )
    remaining_item_count: Annotated[int | None, doc("How many items follow after this page, if known.")] = (
        None
    )


class ApiObject(Fields):
    """The base of a kind written as a Struct."""

    api_version: Annotated[
        str, doc("APIVersion defines the group and version whose schema this object follows.")
    ] = ""
    kind: Annotated[str, doc("What this object is.")] = ""
    metadata: Annotated[
        ObjectMeta, doc("Standard object's metadata: name, labels and the server's own bookkeeping.")
    ] = field(default_factory=ObjectMeta)


OBJECT_META: Final = schema_of(ObjectMeta)
LIST_META: Final = schema_of(ListMeta)
_API_OBJECT: Final = schema_of(ApiObject)


def object_schema(schema: Schema | Mapping[str, Schema]) -> Schema:
    """A kind's schema with ``apiVersion``, ``kind`` and ``metadata`` before its own properties.

    ``schema`` is the properties, or a whole object schema: its description, required fields, rules, and
    limits on ``metadata`` are kept.
    """
    whole = schema if isinstance(schema, Schema) else Schema(type="object", properties=schema)
    own = dict(whole.properties)
    limits = own.pop("metadata", None)
    for name in ("apiVersion", "kind"):
        own.pop(name, None)
    metadata = _API_OBJECT.properties["metadata"]
    if limits is not None:
        metadata = _limited(metadata, limits)
    return replace(whole, type="object", properties={**_API_OBJECT.properties, "metadata": metadata, **own})


def _limited(metadata: Schema, limits: Schema) -> Schema:
    """``metadata`` with a CRD's limits on ``name`` and ``generateName``, no longer a shared component."""
    properties = dict(metadata.properties)
    for name, limit in limits.properties.items():
        if name in properties:
            properties[name] = replace(
                properties[name],
                pattern=limit.pattern,
                min_length=limit.min_length,
                max_length=limit.max_length,
                enum=limit.enum,
                rules=limit.rules,
            )
    if properties == dict(metadata.properties):
        return metadata
    return replace(metadata, ref="", properties=properties)
