"""Fields that the statuses of several of our kinds share."""

from __future__ import annotations

from typing import Annotated, Literal

from pilothouse.meta.schema.struct_schemas import Fields, Int64, Time, doc


class Condition(Fields):
    """One thing that is known about an object."""

    type: Annotated[str, doc("What it is about.", min_length=1)]
    status: Annotated[Literal["True", "False", "Unknown"], doc("True, False or Unknown.")]
    observed_generation: Annotated[Int64 | None, doc("The generation of the spec that it is about.")] = None
    last_transition_time: Annotated[Time | None, doc("When the status last changed.")] = None
    reason: Annotated[str, doc("The reason, in one word for programs.")] = ""
    message: Annotated[str, doc("The reason, in a sentence for people, and what would help.")] = ""


Conditions = Annotated[tuple[Condition, ...], doc("Its conditions.", map_keys=("type",))]
ObservedGeneration = Annotated[Int64 | None, doc("The generation of the spec that was last acted on.")]
