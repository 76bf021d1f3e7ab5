"""A whole number that an action sets or moves by a step, within bounds.

bounded(2, {"step": "1", "max": "3"}, absolute="replicas", what="replicas")     # 3
"""

from __future__ import annotations

from collections.abc import Mapping

from pilothouse.rules.action_targets import TargetDeclined


def bounded(found: int, params: Mapping[str, str], *, absolute: str, what: str) -> int | TargetDeclined:
    """The number to set; declined if nothing would change. ``absolute`` is the parameter that names it."""
    try:
        given, step = params.get(absolute), params.get("step")
        least = int(params["min"]) if "min" in params else None
        most = int(params["max"]) if "max" in params else None
        wanted = int(given) if given is not None else found + int(step or 0)
    except ValueError as problem:
        return TargetDeclined(f"the parameters can't be used: {problem}")
    if given is None and step is None:
        return TargetDeclined(f"the action names neither {absolute} nor step")
    if least is not None and most is not None and least > most:
        return TargetDeclined(f"min {least} is above max {most}")
    to = wanted
    if most is not None and to > most:
        to = most
    if least is not None and to < least:
        to = least
    turned = step is not None and (to - found) * int(step) <= 0
    if to == found or turned:
        bound = f", and max is {most}" if wanted > to else f", and min is {least}" if wanted < to else ""
        return TargetDeclined(f"the number of {what} is {found}{bound}")
    return to
