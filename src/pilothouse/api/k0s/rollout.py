"""The fields of ``spec.rollout``: when a plan may go on, when it stops, and what it does about a failure."""

from __future__ import annotations

from typing import Annotated, Literal

from pilothouse.meta.schema.struct_schemas import Fields, Int32, Int64, IntOrString, doc

Weekday = Literal["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]


class SelectorDiscovery(Fields):
    """Targets by label and field, both of which have to match; an empty selector matches every machine."""

    labels: Annotated[str, doc("A label selector, such as environment=staging.")] = ""
    fields: Annotated[str, doc("A field selector; metadata.name is the field there is.")] = ""


class Window(Fields):
    """A window in the week."""

    start_time: Annotated[str, doc('When the window opens, as "HH:MM" in quotes.')]
    length: Annotated[str, doc("How long it stays open, such as 2h or 1h30m.")]
    days: Annotated[
        tuple[Weekday, ...], doc("The days on which it opens; none means every day.", list_type="set")
    ] = ()
    time_zone: Annotated[str, doc("The time zone of startTime, such as Europe/Berlin; UTC if empty.")] = ""


class Wave(Fields):
    """Workers that are updated before those of the next wave."""

    selector: Annotated[SelectorDiscovery, doc("The workers of this wave, of those that are targets.")]
    name: Annotated[str, doc("A name for people, such as canary.")] = ""


class DrainOptions(Fields):
    """How pods leave a machine before its update."""

    strategy: Annotated[
        Literal["evict", "none"],
        doc("evict moves pods away within their disruption budgets; none leaves them where they are."),
    ] = "evict"
    timeout: Annotated[
        str, doc("How long a drain may take before the machine counts as failed; nodeDeadline if empty.")
    ] = ""
    grace_period_seconds: Annotated[
        Int64 | None, doc("The grace period of evicted pods; each pod's own if absent.", ge=0)
    ] = None
    force_after: Annotated[
        str, doc("After this time, pods that their budgets keep are deleted; never if empty.")
    ] = ""


class Gate(Fields):
    """Objects that have to be in a certain state for a plan to go on. An object that can't be read keeps the
    gate shut."""

    name: Annotated[str, doc("Its name, for messages.", min_length=1, max_length=63)]
    api_version: Annotated[str, doc("The apiVersion of the objects.", min_length=1)]
    kind: Annotated[str, doc("The kind of the objects.", min_length=1)]
    expression: Annotated[
        str,
        doc(
            "A CEL expression over `self` that is true if the gate is open, such as "
            "self.status.health == 'green'. It has to hold for each object.",
            min_length=1,
        ),
    ]
    when: Annotated[
        Literal["before", "during", "after"],
        doc(
            "before: the next machine is not begun while it is shut. during: a machine in progress fails "
            "when it shuts. after: a machine is not done until it is open, and fails at nodeDeadline."
        ),
    ] = "before"
    namespace: Annotated[str, doc("The namespace of the objects; all namespaces if empty.")] = ""
    object_name: Annotated[str, doc("The name of the one object; needs it to exist.")] = ""
    labels: Annotated[str, doc("A label selector; at least one object has to match.")] = ""


class Rollout(Fields):
    """When a plan may go on, when it stops, and what it does about a failure."""

    paused: Annotated[
        bool, doc("Begin no further machine; those in progress finish. It may change in a run.")
    ] = False
    aborted: Annotated[bool, doc("End the plan; machines in progress finish. It may change in a run.")] = (
        False
    )
    node_deadline: Annotated[
        str,
        doc(
            "How long one machine may take, and how long one may stay not ready, or be held by a gate, "
            "when its turn comes."
        ),
    ] = "1h"
    plan_deadline: Annotated[str, doc("How long the plan may take; no limit if empty.")] = ""
    max_failures: Annotated[Int32, doc("How many workers may fail before the plan stops.", ge=0)] = 0
    max_unavailable: Annotated[
        IntOrString | None,
        doc(
            "How many targeted workers may be not ready or cordoned, by anyone, including those in progress."
        ),
    ] = None
    waves: Annotated[
        tuple[Wave, ...], doc("Workers in this order; those that no wave selects come last.")
    ] = ()
    soak: Annotated[
        str, doc("How long a machine has to stay ready after its update before it counts as done.")
    ] = ""
    windows: Annotated[
        tuple[Window, ...], doc("No machine is begun outside of these windows; any time if there are none.")
    ] = ()
    drain: Annotated[DrainOptions, doc("How pods leave a machine.", default={})] = DrainOptions()
    on_not_ready: Annotated[
        Literal["end", "wait"],
        doc("What happens if a controller is not ready: end the plan as InconsistentTargets, or wait."),
    ] = "end"
    on_failure: Annotated[
        Literal["stop", "rollback"],
        doc("stop ends the plan; rollback returns the wave's updated workers to their earlier version."),
    ] = "stop"
    gates: Annotated[
        tuple[Gate, ...], doc("What has to hold before, during or after each machine.", map_keys=("name",))
    ] = ()
