"""Structs that the cluster kinds share in ``v1alpha1`` and ``v1beta1``, because their fields are the same."""

from __future__ import annotations

from typing import Annotated, Literal

from pilothouse.meta.schema.struct_schemas import Fields, Int64, Quantity, Time, doc

GROUP = "navigator.jetstack.io"
MOST_REPLICAS = 1000
"""The maximum number of nodes in a pool: all are reconciled whenever one changes."""

PullPolicy = Literal["Never", "IfNotPresent", "Always"]
ConditionStatus = Literal["True", "False", "Unknown"]
Health = Literal["Red", "Yellow", "Green"]
Role = Literal["data", "master", "ingest"]
NodeLabels = Annotated[dict[str, str], doc("Labels that a machine must have to run them.")]


class ImageSpec(Fields):
    """A container image."""

    repository: Annotated[str, doc("The image without its tag, such as docker.io/cassandra.")]
    tag: Annotated[str, doc("The tag of the image.")]
    pull_policy: Annotated[PullPolicy, doc("When a node fetches the image.")] = "IfNotPresent"


class SecurityContext(Fields):
    """As whom the database runs."""

    run_as_user: Annotated[
        Int64 | None,
        doc("The user id of the database's processes and the group id of its volumes.", ge=0),
    ] = None


class PersistenceConfig(Fields):
    """The volume that each node of a pool keeps its data on."""

    size: Annotated[Quantity, doc("How much space each node gets, such as 10Gi.")]
    storage_class: Annotated[
        str | None, doc("The storage class of the volumes; absent means the cluster's default class.")
    ] = None


class ClusterCondition(Fields):
    """One thing that is known about a cluster."""

    type: Annotated[str, doc("The type: Available, Progressing, Degraded or Paused.", min_length=1)]
    status: Annotated[ConditionStatus, doc("True, False or Unknown.")]
    last_transition_time: Annotated[Time | None, doc("When the status last changed.")] = None
    reason: Annotated[str, doc("The reason, in one word for programs.")] = ""
    message: Annotated[str, doc("The reason, in a sentence for people.")] = ""
