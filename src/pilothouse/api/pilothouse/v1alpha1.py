"""``pilothouse.io/v1alpha1``: what a controller saw, decided and did for an object, and what it waits for;
and questions about what controllers know but do not write.

A ``Decision`` is a record like an Event, without spec and status; the controller writes it whole, and only
when the decision changes. It is in the namespace of its object; for a cluster-wide object in ``default``.

A ``Question`` is created by a client, answered in its status by the leading controller-manager, and deleted a
minute after its creation. The answer is about objects in the namespace of the Question, and no others.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pilothouse.api.status_fields import Conditions
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


class QuestionSpec(Fields):
    """What is asked. It can't be changed."""

    about: Annotated[
        ObjectReference,
        doc(
            "A PersistentVolumeClaim of the same namespace, for what is known of it under each of its rules; "
            "or an AutopilotRule, for what is known of its objects in the namespace."
        ),
    ]
    what: Annotated[Literal["Reading"], doc("What is asked: Reading, the last values of metrics.")] = (
        "Reading"
    )


class MeasuredValue(Fields):
    """The last value of an expression of a rule, for one object."""

    expression: Annotated[str, doc("What is measured: the alias, or the expression.")]
    value: Annotated[str, doc("The value; empty if there is none.")] = ""
    time: Annotated[Time | None, doc("When it was measured.")] = None
    operator: Annotated[str, doc("How it is compared.")] = ""
    threshold: Annotated[tuple[str, ...], doc("What it is compared with.", list_type="atomic")] = ()
    reached: Annotated[
        Time | None,
        doc("When it reaches the threshold by its slope of the last hour, half of which must be known."),
    ] = None
    level: Annotated[str, doc("What the metric is about: the rule's object, or one above or below it.")] = ""
    object: Annotated[str, doc("Which object of that level, as namespace/name or name.")] = ""
    held: Annotated[bool | None, doc("Whether the comparison holds; absent if there is no value.")] = None


class ExplainedCandidate(Fields):
    """A candidate of a rule, compared for one object."""

    name: Annotated[str, doc("Its name.")]
    holds: Annotated[bool, doc("Whether all of its comparisons hold.")] = False
    links: Annotated[
        tuple[MeasuredValue, ...],
        doc("The comparisons along the chain, in the order of expressions.", list_type="atomic"),
    ] = ()


class RuleReading(Fields):
    """What is known of one object under one AutopilotRule."""

    rule: Annotated[str, doc("The name of the AutopilotRule.")]
    object: Annotated[str, doc("The name of the object.")]
    kind: Annotated[str, doc("Its kind.")] = ""
    volume: Annotated[str, doc("The name of its PersistentVolume.")] = ""
    values: Annotated[
        tuple[MeasuredValue, ...],
        doc("The values, in the order of expressions.", list_type="atomic"),
    ] = ()
    conditions: Annotated[
        Literal["Met", "NotMet", "Unknown"], doc("Whether the conditions of the rule are met.")
    ] = "Unknown"
    unknown: Annotated[str, doc("Why that is unknown.")] = ""
    state: Annotated[str, doc("The state of its AutopilotRuleObject.")] = ""
    since: Annotated[Time | None, doc("Since when.")] = None
    waiting: Annotated[Waiting | None, doc("What it waits for, and until when.")] = None
    would: Annotated[str, doc("What the actions of the rule would do to the object as it is.")] = ""
    candidate: Annotated[str, doc("The candidate that is chosen, or would be.")] = ""
    candidates: Annotated[
        tuple[ExplainedCandidate, ...],
        doc("The candidates, while the conditions are met.", list_type="atomic"),
    ] = ()


class QuestionStatus(Fields):
    """The answer."""

    time: Annotated[Time | None, doc("When it was answered.")] = None
    answered_by: Annotated[str, doc("The component that answered.")] = ""
    answer: Annotated[
        tuple[RuleReading, ...], doc("What is known of each object, by object and rule.", list_type="atomic")
    ] = ()
    left_out: Annotated[Int64, doc("How many objects are left out; an answer has at most 500.", ge=0)] = 0
    message: Annotated[str, doc("Why there is nothing to answer.")] = ""


class Question(ApiObject, kw_only=True):
    """A question about what controllers know of objects in its namespace; it exists for a minute."""

    spec: Annotated[QuestionSpec, doc("What is asked.")]
    status: Annotated[QuestionStatus | None, doc("The answer.")] = None


class StoragePoolStatus(Fields):
    """What the node reports of a tier."""

    node: Annotated[str, doc("The node.")] = ""
    tier: Annotated[str, doc("The tier of the node.")] = ""
    device: Annotated[str, doc("The block device below it, such as nvme0n1; empty if there is none.")] = ""
    medium: Annotated[
        Literal["", "ssd", "hdd", "memory"], doc("What it is made of; empty if that is not known.")
    ] = ""
    expandable: Annotated[bool, doc("Whether it is files that can grow: --tier NAME=DIR,size=2Gi.")] = False
    capacity: Annotated[str, doc("How much it holds, as a quantity.")] = ""
    provisioned: Annotated[str, doc("The sizes of its volumes, added up, as a quantity.")] = ""
    used: Annotated[str, doc("How much is used, as a quantity.")] = ""
    conditions: Conditions = ()


class StoragePoolSpec(Fields):
    """What is asked of a tier."""

    capacity: Annotated[
        str, doc("How much it should hold, as a quantity; only for a tier that is files. It never shrinks.")
    ] = ""


class StoragePool(ApiObject, kw_only=True):
    """A tier of storage of one node, written by the node: ``<node>-<tier>``."""

    spec: Annotated[StoragePoolSpec, doc("What is asked of it.")] = StoragePoolSpec()
    status: Annotated[StoragePoolStatus | None, doc("What the node reports of it.")] = None
