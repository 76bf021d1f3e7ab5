"""The metrics of update plans, computed from their status when the page is read.

    "".join(plan_families(informer.cache.get("", RUNNING_PLAN)))

Targets are counted, never named: a plan may have thousands, and anyone may read the page.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, Final, get_args

from pilothouse.api.k0s.v1beta2 import PlanState, SignalState
from pilothouse.api.objects import Object
from pilothouse.base.histogram import Histogram
from pilothouse.base.prometheus_text import gauge, histogram, labels
from pilothouse.base.rfc3339 import TimeError, parse_time

_SECONDS: Final = (5, 15, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200)
_PARTS: Final = (("airgapupdate", "workers"), ("k0supdate", "controllers"), ("k0supdate", "workers"))
_SENT: Final = "SignalSent"
_NO_STEP: Final = "Signalled"
"""The step of a machine that has not answered yet."""


def plan_families(plan: Object | None) -> Iterator[str]:
    """The state of the plan that runs or ran last, and how far its machines are."""
    if plan is None or plan.status.get("spec") is None:
        return
    stages = list(_stages(plan))
    yield gauge(
        "pilothouse_plan_state",
        "1 for the state that the run of a plan is in, 0 for the others.",
        [
            (labels(plan=plan.name, state=state), int(plan.status.get("state") == state))
            for state in get_args(PlanState)
            if state
        ],
    )
    yield gauge(
        "pilothouse_plan_targets",
        "Machines of a plan by command, part and state.",
        [
            (f"{text},{labels(state=state)}", count[state])
            for text, targets in stages
            for count in (Counter(target.get("state") for target in targets),)
            for state in get_args(SignalState)
            if state in count or state in _SHOWN
        ],
    )
    yield gauge(
        "pilothouse_plan_targets_in_progress",
        "Machines in progress by the last step that each has reported.",
        [
            (f"{text},{labels(step=step)}", number)
            for text, targets in stages
            for step, number in sorted(_steps(targets).items())
        ],
    )
    yield histogram(
        "pilothouse_plan_target_duration_seconds",
        "Duration of the turns that have ended in this run, from the signal to the end.",
        [(text, _durations(targets)) for text, targets in stages],
    )
    yield gauge(
        "pilothouse_plan_last_transition_timestamp_seconds",
        "When the run of a plan started or ended, or a machine of it last took a step.",
        [(labels(plan=plan.name), _last_transition(plan))],
    )


_SHOWN: Final = ("SignalPending", _SENT, "SignalCompleted", "SignalApplyFailed")
"""The states that are shown also if no machine is in them, so that alerts have something to compare with."""

Targets = list[Mapping[str, Any]]


def _stages(plan: Object) -> Iterator[tuple[str, Targets]]:
    """The labels and the targets of each part of a command that has any."""
    for number, command in enumerate(plan.status.get("commands") or ()):
        for kind, part in _PARTS:
            if targets := (command.get(kind) or {}).get(part):
                yield labels(plan=plan.name, command=f"{number}/{kind}", part=part), targets


def _steps(targets: Targets) -> Counter[str]:
    return Counter(target.get("step") or _NO_STEP for target in targets if target.get("state") == _SENT)


def _durations(targets: Targets) -> Histogram:
    found = Histogram(_SECONDS)
    for target in targets:
        began, ended = _moment(target.get("startedTime")), _moment(target.get("completedTime"))
        if began and ended:
            found.observe(max(0.0, ended - began))
    return found


def _last_transition(plan: Object) -> float:
    moments = [_moment(plan.status.get(field)) for field in ("startedTime", "completedTime")]
    for _, targets in _stages(plan):
        # Times of one format: the last one in the alphabet is the last one.
        moments.append(_moment(max(str(target.get("lastUpdatedTimestamp") or "") for target in targets)))
    return max(moments)


def _moment(text: object) -> float:
    try:
        return parse_time(str(text)) if text else 0.0
    except TimeError:
        return 0.0
