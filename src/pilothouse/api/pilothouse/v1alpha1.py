"""``pilothouse.io/v1alpha1``: what a controller saw, decided and did for an object, and what it waits for.

A ``Decision`` is a record like an Event, without spec and status; the controller writes it whole, and only
when the decision changes. It is in the namespace of its object; for a cluster-wide object in ``default``.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pilothouse.meta.object_meta import ApiObject
from pilothouse.meta.schema.struct_schemas import Fields, Int64, Time, doc

GROUP = "pilothouse.io"
VERSION = "v1alpha1"
PACKAGE = "io.pilothouse.v1alpha1"


class ObjectReference(Fields):
    """An object."""

    kind: Annotated[str, doc("Its kind.", min_length=1)]
    name: Annotated[str, doc("Its name.", min_length=1)]
    api_version: Annotated[str, doc("Its API group and version.")] = ""
    namespace: Annotated[str, doc("Its namespace; empty for cluster-wide kinds.")] = ""
    uid: Annotated[str, doc("Its uid.")] = ""


class Reading(Fields):
    """An object that the decision rests on, as it was when it was read."""

    kind: Annotated[str, doc("Its kind.", min_length=1)]
    name: Annotated[str, doc("Its name; empty if it was looked for and not there by any name.")] = ""
    api_version: Annotated[str, doc("Its API group and version.")] = ""
    namespace: Annotated[str, doc("Its namespace; empty for cluster-wide kinds.")] = ""
    resource_version: Annotated[str, doc("The version that was read; empty if it was not there.")] = ""


class DecisionIntent(Fields):
    """One thing that was decided, why, and what came of it."""

    verb: Annotated[
        str, doc("What to do: Create, Apply, Patch, SetStatus, Delete, Evict, Event or After.", min_length=1)
    ]
    because: Annotated[str, doc("Why, in a sentence.")]
    object: Annotated[ObjectReference | None, doc("What it is done to.")] = None
    outcome: Annotated[
        Literal["Pending", "Done", "Failed", "Refused", "Skipped"] | None, doc("What came of it.")
    ] = None
    message: Annotated[str, doc("What went wrong, if something did.")] = ""


class Waiting(Fields):
    """What has to happen before anything else is done."""

    reason: Annotated[str, doc("What is waited for, in one word for programs.", min_length=1)]
    message: Annotated[str, doc("What is waited for, in a sentence for people.")]
    since: Annotated[Time | None, doc("Since when.")] = None
    until: Annotated[Time | None, doc("When it will be looked at again, if that is known.")] = None
    remedy: Annotated[str, doc("What a person could do about it.")] = ""


class Decision(ApiObject, kw_only=True):
    """What a controller last saw, decided and did for an object, and what it waits for."""

    controller: Annotated[str, doc("The controller that decided.", min_length=1)]
    object: Annotated[ObjectReference, doc("The object that it decided about.")]
    outcome: Annotated[
        Literal["Done", "Waiting", "Failed", "Nothing"], doc("How it stands: what the last decision came to.")
    ]
    time: Annotated[Time | None, doc("When the decision last changed.")] = None
    read: Annotated[tuple[Reading, ...], doc("What was read.", list_type="atomic")] = ()
    intents: Annotated[
        tuple[DecisionIntent, ...], doc("What was decided, in order.", list_type="atomic")
    ] = ()
    waiting: Annotated[Waiting | None, doc("What is waited for.")] = None
    summary: Annotated[str, doc("All of it in a sentence.")] = ""
    attempts: Annotated[Int64, doc("How often the same decision failed in a row.", ge=0)] = 0
    manager: Annotated[str, doc("The process that decided.")] = ""
    epoch: Annotated[Int64 | None, doc("How often leadership had changed hands by then.")] = None
