"""Types that every API has: DeleteOptions, Status, Scale, Patch."""

from __future__ import annotations

from typing import Annotated, Final

from pilothouse.meta.object_meta import PACKAGE, ApiObject, ListMeta
from pilothouse.meta.schema.model import Schema
from pilothouse.meta.schema.struct_schemas import Fields, Int32, Int64, doc, schema_of


class Preconditions(Fields):
    """What must be true of an object for it to be deleted."""

    uid: Annotated[str | None, doc("The object's uid.")] = None
    resource_version: Annotated[str | None, doc("The object's resourceVersion.")] = None


class DeleteOptions(Fields):
    """How to delete an object."""

    api_version: Annotated[str, doc("Group and version of these options.")] = ""
    kind: Annotated[str, doc("DeleteOptions.")] = ""
    dry_run: Annotated[tuple[str, ...], doc("All: go through every step but delete nothing.")] = ()
    grace_period_seconds: Annotated[
        Int64 | None, doc("How long the object may take to terminate; 0 for at once.")
    ] = None
    orphan_dependents: Annotated[bool | None, doc("Superseded by propagationPolicy.")] = None
    preconditions: Annotated[Preconditions | None, doc("What must be true of the object.")] = None
    propagation_policy: Annotated[
        str | None, doc("What happens to objects that it owns: Orphan, Background or Foreground.")
    ] = None


class StatusCause(Fields):
    """One machine-readable cause of a failure."""

    reason: Annotated[str, doc("What is wrong, in one word.")] = ""
    message: Annotated[str, doc("What is wrong, for people.")] = ""
    field: Annotated[str, doc("The path of the field at fault.")] = ""


class StatusDetails(Fields):
    """What a status is about."""

    name: Annotated[str, doc("The object's name.")] = ""
    group: Annotated[str, doc("The object's group.")] = ""
    kind: Annotated[str, doc("The object's kind or resource.")] = ""
    uid: Annotated[str, doc("The object's uid.")] = ""
    causes: Annotated[tuple[StatusCause, ...], doc("Each cause of the failure.")] = ()
    retry_after_seconds: Annotated[Int32, doc("When to try again.")] = 0


class Status(Fields):
    """The outcome of a request that answers with no object."""

    api_version: Annotated[str, doc("v1.")] = ""
    kind: Annotated[str, doc("Status.")] = ""
    metadata: Annotated[ListMeta | None, doc("How to go on with a list that failed.")] = None
    status: Annotated[str, doc("Success or Failure.")] = ""
    message: Annotated[str, doc("What happened, for people.")] = ""
    reason: Annotated[str, doc("Why it failed, in one word.")] = ""
    details: Annotated[StatusDetails | None, doc("What it is about.")] = None
    code: Annotated[Int32, doc("The HTTP status code.")] = 0


class ScaleSpec(Fields):
    """The desired size."""

    replicas: Annotated[Int32, doc("How many instances there should be.", ge=0)] = 0


class ScaleStatus(Fields):
    """The size seen."""

    replicas: Annotated[Int32, doc("How many instances there are.", default=0)] = 0
    selector: Annotated[str, doc("Selects the pods that are counted.")] = ""


class Scale(ApiObject):
    """A request to change the number of instances of an object."""

    spec: Annotated[ScaleSpec | None, doc("The desired size.")] = None
    status: Annotated[ScaleStatus | None, doc("The size seen.")] = None


DELETE_OPTIONS: Final = schema_of(DeleteOptions, PACKAGE)
STATUS: Final = schema_of(Status, PACKAGE)
SCALE: Final = schema_of(Scale, "io.k8s.api.autoscaling.v1")
PATCH: Final = Schema(
    ref=f"{PACKAGE}.Patch",
    preserve_unknown=True,
    description="A change to an object; its form depends on the media type.",
)
