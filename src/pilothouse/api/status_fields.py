"""Fields that the statuses of several of our kinds share."""

from __future__ import annotations

from typing import Annotated, Literal

from pilothouse.meta.schema.struct_schemas import Fields, Int64, Time, doc


class Condition(Fields):
    """One thing that is known about an object."""

    type: Annotated[str, doc("What it is about.", min_length=1)]
    status: Annotated[Literal["True", "False", "Unknown"], doc("Whether it holds.")]
    observed_generation: Annotated[Int64 | None, doc("The generation of the spec that it speaks of.")] = None
    last_transition_time: Annotated[Time | None, doc("When the status last changed.")] = None
    reason: Annotated[str, doc("Why, in one word for programs.")] = ""
    message: Annotated[str, doc("Why, in a sentence for people, and what would help.")] = ""


Conditions = Annotated[tuple[Condition, ...], doc("What holds and what does not.", map_keys=("type",))]
ObservedGeneration = Annotated[Int64 | None, doc("The generation of the spec that was last acted on.")]
