"""The actions that rules may fire, and their parameters.

    parameter_problems("openstorage.io.action.volume/resize", {"maxsize": "1Ti"}, "spec.actions[0].params")

An action's name, ``<domain>.action.<type>/<verb>``, says for which type of object it is, which determines
what a rule watches. Those of the domain ``openstorage.io`` are listed here; those of other domains are
carried out by their own executors, which check the parameters.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Final, NamedTuple

from pilothouse.base.duration import parse_duration
from pilothouse.base.quantity import Quantity, parse_quantity
from pilothouse.meta.fields import FieldError, child

PREFIX: Final = "openstorage.io.action."
RESIZE: Final = f"{PREFIX}volume/resize"
MOVE: Final = f"{PREFIX}volume/move"
SET_IOPS: Final = f"{PREFIX}volume/setiops"
HA: Final = f"{PREFIX}volume/ha"
EXPAND_POOL: Final = f"{PREFIX}storagepool/expand"
REBALANCE_POOL: Final = f"{PREFIX}storagepool/rebalance"
SCALE: Final = f"{PREFIX}workload/scale"
RESOURCES: Final = f"{PREFIX}workload/resources"
REDUNDANCY: Final = f"{PREFIX}application/redundancy"
REBALANCE: Final = f"{PREFIX}application/rebalance"
WEBHOOKS: Final = frozenset(
    f"{PREFIX}{kind}/webhook" for kind in ("application", "workload", "pod", "volume", "storagepool", "node")
)
"""Posted to a server of the configuration file, for every type of object."""
FINISHED: Final = frozenset({"Succeeded", "Failed", "Declined", "Canceled"})
"""The phases of an ApplicationAction in which nothing more happens."""
CLUSTER_WIDE_RECORDS: Final = "kube-system"
"""The namespace of the records of cluster-wide objects."""
_LABEL: Final = "[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"
_NAME: Final = re.compile(rf"({_LABEL}(?:\.{_LABEL})+)\.action\.([a-z]+)/([a-z][a-z0-9-]{{0,62}})")
_LONGEST_NAME: Final = 316
Check = Callable[[str], str]


class Action(NamedTuple):
    """The parameters of an action, each with its check, and those that exclude each other."""

    parameters: Mapping[str, Check]
    exclusive: tuple[str, str] | None = None
    needed: tuple[str, ...] = ()
    """One of these has to be given."""
    ordered: tuple[str, str] | None = None
    """The first must not be above the second; both are quantities, such as whole numbers."""
    together: tuple[str, str] | None = None
    """The first needs the second, and the other way round."""
    refused: Mapping[str, str] = {}
    """Parameters that people expect and can't have, and why."""


def object_type(name: str) -> str:
    """The type of object of an action (``volume``); empty if the name isn't an action's."""
    match = _NAME.fullmatch(name) if len(name) <= _LONGEST_NAME else None
    return match[2] if match else ""


def name_problems(name: str, path: str) -> Iterator[FieldError]:
    """What is wrong with an action's name."""
    if not object_type(name):
        form = f"must look like {PREFIX}volume/resize or example.com.action.volume/snapshot"
        yield FieldError.invalid(path, name[:_LONGEST_NAME], form)
    elif name.startswith(PREFIX) and name not in ACTIONS:
        yield FieldError.not_supported(path, name, ACTIONS)


def parameter_problems(name: str, parameters: Mapping[str, str], path: str) -> Iterator[FieldError]:
    """Problems of the parameters of a known action."""
    action = ACTIONS.get(name)
    if action is None:
        return
    for parameter, value in parameters.items():
        check = action.parameters.get(parameter)
        if why := action.refused.get(parameter):
            yield FieldError.forbidden(child(path, parameter), why)
        elif check is None:
            if not action.parameters:
                yield FieldError.forbidden(child(path, parameter), f"{name} takes no parameters")
            else:
                yield FieldError.not_supported(child(path, parameter), parameter, sorted(action.parameters))
        elif problem := check(value):
            yield FieldError.invalid(child(path, parameter), value, problem)
    if action.exclusive and all(parameter in parameters for parameter in action.exclusive):
        first, second = action.exclusive
        yield FieldError.forbidden(child(path, second), f"{first} is given already and means the same")
    yield from _combination_problems(name, action, parameters, path)


def _combination_problems(
    name: str, action: Action, parameters: Mapping[str, str], path: str
) -> Iterator[FieldError]:
    if action.needed and not any(parameter in parameters for parameter in action.needed):
        yield FieldError.required(child(path, action.needed[0]), f"{name} needs {' or '.join(action.needed)}")
    if action.together and (given := [each for each in action.together if each in parameters]):
        for parameter in action.together:
            if parameter not in parameters:
                yield FieldError.required(child(path, parameter), f"{given[0]} needs it")
    if action.ordered and all(parameter in parameters for parameter in action.ordered):
        low, high = (parameters[parameter] for parameter in action.ordered)
        valid = not any(action.parameters[each](parameters[each]) for each in action.ordered)
        if valid and parse_quantity(low) > parse_quantity(high):
            where = child(path, action.ordered[0])
            yield FieldError.invalid(where, low, f"must not be above {action.ordered[1]}, which is {high}")


def _percentage(value: str) -> str:
    return "" if _is_number(value) and float(value) > 0 else "must be a number above zero, such as 50"


def _count(value: str) -> str:
    return (
        ""
        if value.isascii() and value.isdigit() and int(value[:9]) > 0
        else "must be a whole number above zero"
    )


def _number_from_zero(value: str) -> str:
    return "" if value == "0" or not _count(value) else "must be a whole number, 0 or more"


def _signed_count(value: str) -> str:
    problem = "must be a whole number other than zero, such as 1 or -1"
    return problem if _count(value.removeprefix("-").removeprefix("+")) else ""


def _signed_percentage(value: str) -> str:
    problem = "must be a number other than zero, such as 50 or -25"
    return problem if _percentage(value.removeprefix("-").removeprefix("+")) else ""


def _duration(value: str) -> str:
    try:
        parse_duration(value)
    except ValueError:
        return "must be a duration such as 30m or 1h"
    return ""


def _field_path(value: str) -> str:
    good = re.fullmatch(r"spec(\.[A-Za-z][A-Za-z0-9]*)+", value) and len(value) <= _LONGEST_NAME
    return "" if good else "must be the path of a field, such as spec.storage.size"


def size_problem(value: str) -> str:
    """What is wrong with a size; empty if nothing is."""
    try:
        size = parse_quantity(value)
    except ValueError:
        size = Quantity(0)
    return "" if size > Quantity(0) else "must be a quantity above zero, such as 400Gi"


def _one_of(*values: str) -> Check:
    return lambda value: "" if value in values else f"must be one of {', '.join(values)}"


def _some_text(value: str) -> str:
    return "" if value.strip() else "must not be empty"


def _is_number(value: str) -> bool:
    return re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,9})?", value) is not None


ACTIONS: Final[Mapping[str, Action]] = {
    RESIZE: Action(
        {
            "scalepercentage": _percentage,
            "scalesize": size_problem,
            "minstep": size_problem,
            "maxsize": size_problem,
            "owner": _field_path,
        },
        ("scalepercentage", "scalesize"),
    ),
    MOVE: Action(
        {"tier": _some_text, "class": _some_text, "keep": _duration},
        ("tier", "class"),
        needed=("tier", "class"),
        refused={"node": "a local volume can't leave its machine; name a tier of its node, or a class"},
    ),
    SET_IOPS: Action(
        {
            "classes": _some_text,
            "step": _one_of("up", "down"),
            "iops": _count,
            "scalepercentage": _signed_percentage,
            "miniops": _count,
            "maxiops": _count,
        },
        ("iops", "scalepercentage"),
        needed=("classes", "iops", "scalepercentage"),
        ordered=("miniops", "maxiops"),
        together=("classes", "step"),
    ),
    HA: Action({"level": _one_of("1", "2", "3")}),
    EXPAND_POOL: Action(
        {
            "scalepercentage": _percentage,
            "scalesize": size_problem,
            "scaletype": _one_of("auto", "add-disk", "add-drive", "resize-disk", "resize-drive"),
            "dontWaitForCleanVolumes": _one_of("true", "false"),
        },
        ("scalepercentage", "scalesize"),
    ),
    REBALANCE_POOL: Action({}),
    SCALE: Action(
        {"replicas": _count, "step": _signed_count, "min": _count, "max": _count},
        ("replicas", "step"),
        ordered=("min", "max"),
    ),
    RESOURCES: Action(
        {
            "container": _some_text,
            "resource": _one_of("cpu", "memory"),
            "scalepercentage": _signed_percentage,
            "min": size_problem,
            "max": size_problem,
        },
        ordered=("min", "max"),
    ),
    REDUNDANCY: Action(
        {"copies": _number_from_zero, "step": _signed_count, "min": _number_from_zero, "max": _count},
        ("copies", "step"),
        ordered=("min", "max"),
    ),
    REBALANCE: Action({}),
    **{name: Action({"name": _some_text}, needed=("name",)) for name in sorted(WEBHOOKS)},
}
"""Every action, by name."""
