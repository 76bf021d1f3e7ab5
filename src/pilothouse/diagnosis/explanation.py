"""Findings as text: what is wrong, for how long, and what would help; with ``verbose`` also what was read,
decided and done.

    print("\\n".join(explain(findings, now=clock.now())))

    StatefulSet default/web:
      waiting (for 4m10s): pod web-0 has no node yet
        what would help: add a node, or remove the taints of those that exist

If nothing is known, the text says why: the kind has no controller, or no controller-manager leads.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pilothouse.api.objects import Tree
from pilothouse.base.duration import human_age
from pilothouse.base.rfc3339 import parse_time
from pilothouse.base.terminal_text import escape_control_characters
from pilothouse.diagnosis.findings import Findings, ObjectFindings, event_time

_MAX_READ = 8
_MAX_INTENTS = 10
_STALE = 2.0
"""After how many times its duration a lease that is not renewed counts as abandoned."""
_STUCK = ("Waiting", "Failed")
_NEGATIVE = frozenset(
    {
        *("MemoryPressure", "DiskPressure", "PIDPressure", "NetworkUnavailable"),
        *("NodeResizeError", "ControllerResizeError", "ModifyVolumeError"),
        *("NamespaceContentRemaining", "NamespaceFinalizersRemaining", "NamespaceDeletionContentFailure"),
        *("NamespaceDeletionDiscoveryFailure", "NamespaceDeletionGroupVersionParsingFailure"),
        *("DisruptionTarget", "Denied", "Failed", "Degraded", "EditedByHand", "Stopped", "Stalled"),
    }
)
_NEGATIVE_SUFFIXES = (
    "Pressure",
    "Unavailable",
    "Failure",
    "Failed",
    "Error",
    "Degraded",
    "Remaining",
    "Blocked",
    "Conflict",
)
"""Conditions that report a problem when True, by name or by suffix; all others report one when not True."""
_PROGRESSING = "Progressing"
"""Neither good nor bad: True while something changes, False when that is done or impossible."""
_PROGRESS_DONE = frozenset({"AsAsked", "NewReplicaSetAvailable", "Complete"})
_NEUTRAL = frozenset({"Approved", "Decommissioned"})
_RECENT = 600.0
"""Seconds for which a normal event is shown without ``verbose``."""


_INTENT_OUTCOMES = {
    "Done": "done",
    "Skipped": "no change needed",
    "Failed": "failed",
    "Refused": "not done, the object had changed",
    "Pending": "pending",
}


def as_text(findings: Findings, *, now: float, verbose: bool = False) -> str:
    """For a terminal: control characters are escaped."""
    return "\n".join(map(escape_control_characters, explain(findings, now=now, verbose=verbose)))


def explain(findings: Findings, *, now: float, verbose: bool = False) -> list[str]:
    """The lines."""
    lines = [*_about(findings, now, verbose)]
    for owner in findings.owners:
        lines += ["", f"Owner {_name(owner)}:", *_indented(_object(owner, now, brief=True))]
    stuck = [each for each in findings.dependents if _is_stuck(each)]
    for dependent in stuck:
        lines += ["", f"Dependent {_name(dependent)}:", *_indented(_object(dependent, now, brief=True))]
    if fine := len(findings.dependents) - len(stuck):
        lines += [
            "",
            f"No problems with {'the other' if stuck else 'its'} {fine} dependent{'' if fine == 1 else 's'}.",
        ]
    if warning := _no_leader(findings, now):
        lines += ["", warning]
    return lines


def _about(findings: Findings, now: float, verbose: bool) -> Iterator[str]:
    about = findings.about
    if not about.exists:
        yield f"{_name(about)} not found."
        if not about.decisions:
            return
        yield "The last decisions about an object of that name:"
    else:
        yield f"{_name(about)}:"
    yield from _indented(_object(about, now, verbose=verbose or not about.exists))
    if not about.decisions and about.exists:
        yield from _indented(_why_no_decisions(findings, now))


def _object(one: ObjectFindings, now: float, *, brief: bool = False, verbose: bool = False) -> Iterator[str]:
    problems = [*_problems(one, now, brief=brief, verbose=verbose)]
    yield from problems
    if not problems and one.exists and (brief or one.decisions):
        yield "no problems found" if one.decisions else "no decisions recorded"
    for event in one.events[: 2 if brief else None]:
        age = now - parse_time(event_time(event))
        if verbose or event.get("type") == "Warning" or age < _RECENT:
            times = f" (x{event['count']})" if event.get("count", 1) > 1 else ""
            yield (
                f"{human_age(max(0.0, age))} ago{times}: {event.get('reason', '')}: "
                f"{event.get('message', '')}"
            )


def _problems(one: ObjectFindings, now: float, *, brief: bool, verbose: bool) -> Iterator[str]:
    if one.deleting:
        finalizers = f"; waiting for finalizers: {', '.join(one.finalizers)}" if one.finalizers else ""
        yield f"being deleted (for {_age(one.deleting, now)}){finalizers}"
    for decision in sorted(
        one.decisions, key=lambda each: (each.get("outcome") not in _STUCK, each["controller"])
    ):
        if verbose or decision.get("outcome") in _STUCK:
            yield from _decision(decision, now, brief=brief, verbose=verbose)
    waited_for = [each["waiting"].get("message", "") for each in one.decisions if "waiting" in each]
    if one.log_errors:
        yield f"last errors in its log: {one.log_errors}"
    if one.problem and not waited_for:
        yield one.problem
        if one.remedy:
            yield f"  what would help: {one.remedy}"
    for condition in one.conditions:
        message = condition.get("message", "")
        if _is_repeated(condition, one.conditions):
            continue
        if message and _is_notable(condition) and not _is_waited_for(condition, waited_for):
            since = condition.get("lastTransitionTime")
            yield (
                f"condition {condition.get('type')} is {condition.get('status')} "
                f"({condition.get('reason', '')}){f' for {_age(since, now)}' if since else ''}: {message}"
            )


def _is_waited_for(condition: Mapping[str, Any], waited_for: Sequence[str]) -> bool:
    """Whether a condition repeats what a Decision waits for. ``Degraded`` may say more than that."""
    message = str(condition.get("message", ""))
    if condition.get("type") == "Degraded":
        return any(message in each for each in waited_for)
    return any(each in message for each in waited_for)


def _is_repeated(condition: Mapping[str, Any], conditions: Sequence[Mapping[str, Any]]) -> bool:
    """Whether another condition that is shown contains this message, or an earlier one equals it."""
    message, index = str(condition.get("message", "")), conditions.index(condition)
    return any(
        message in str(other.get("message", "")) and (message != other.get("message") or position < index)
        for position, other in enumerate(conditions)
        if position != index and _is_notable(other)
    )


def _is_notable(condition: Mapping[str, Any]) -> bool:
    """Whether a condition reports a problem, or a change in progress."""
    kind, status = str(condition.get("type", "")), condition.get("status")
    if kind == _PROGRESSING:
        return status == "True" or condition.get("reason") not in _PROGRESS_DONE
    if kind in _NEUTRAL and status != "Unknown":
        return False
    negative = kind in _NEGATIVE or kind.endswith(_NEGATIVE_SUFFIXES)
    return status != ("False" if negative else "True")


def _decision(decision: Tree, now: float, *, brief: bool, verbose: bool) -> Iterator[str]:
    moment = decision.get("time")
    age = _age(moment, now) if moment else "an unknown time"
    match decision.get("outcome"):
        case "Waiting":
            waiting = decision.get("waiting", {})
            since = f" (for {_age(waiting['since'], now)})" if waiting.get("since") else ""
            yield f"waiting{since}: {waiting.get('message', '')}"
            if waiting.get("remedy"):
                yield f"  what would help: {waiting['remedy']}"
            if waiting.get("until") and verbose:
                yield f"  checked again {_when(waiting['until'], now)}, or when something changes"
        case "Failed":
            attempts = f" ({decision['attempts']} times in a row)" if decision.get("attempts", 0) > 1 else ""
            yield f"failed{attempts}: {decision.get('summary', '').removeprefix('failed: ')}"
            yield "  retried with increasing back-off"
        case "Nothing":
            yield f"in the desired state (for {age})"
        case _:
            yield f"last changed {age} ago: {decision.get('summary', '')}"
    if brief or not verbose:
        return
    yield f"  decided by {decision['controller']} {age} ago; it read {_read(decision)}"
    intents = [each for each in decision.get("intents") or () if each.get("verb") != "Wait"]
    for intent in intents[:_MAX_INTENTS]:
        yield f"  {_intent(intent)}"
    if len(intents) > _MAX_INTENTS:
        yield f"  and {len(intents) - _MAX_INTENTS} more"


def _intent(intent: Mapping[str, Any]) -> str:
    target = intent.get("object") or {}
    name = f" {target.get('kind')} {target.get('name')}" if target else ""
    message = f": {intent['message']}" if intent.get("message") else ""
    outcome = _INTENT_OUTCOMES.get(intent.get("outcome", ""), "decided")
    return f"{intent.get('verb')}{name} ({outcome}{message}): {intent.get('because')}"


def _read(decision: Tree) -> str:
    read = decision.get("read") or ()
    if not read:
        return "only this object"
    names = [
        f"{each['kind']} {each.get('name', '')} "
        + (f"(resourceVersion {each['resourceVersion']})" if each.get("resourceVersion") else "(not found)")
        for each in read[:_MAX_READ]
    ]
    return ", ".join(names) + (f" and {len(read) - _MAX_READ} more" if len(read) > _MAX_READ else "")


def _why_no_decisions(findings: Findings, now: float) -> Iterator[str]:
    kind = findings.about.kind
    if not findings.controllers:
        yield f"no controller handles the kind {kind}, so no decisions are recorded"
    elif findings.disabled:
        yield (
            f"the server is a Kubernetes API server: its own controllers handle the kind {kind} and record "
            f"no decisions (see `kubectl describe`), and ours are disabled ({', '.join(findings.disabled)})"
        )
    elif not findings.serves_decisions:
        yield "the server has no kind Decision; `pilothouse crds | kubectl apply -f -` installs it"
    else:
        yield f"no decisions recorded by {', '.join(findings.controllers)}"
        if not _no_leader(findings, now):
            yield (
                "  either there was nothing to do, or the controller is disabled: the controller-manager "
                "lists its controllers in its first log line, and --controllers selects them"
            )


def _no_leader(findings: Findings, now: float) -> str:
    leader = findings.leader
    remedy = "start one with `pilothouse controller-manager`"
    if not findings.controllers or findings.disabled:
        return ""
    if not leader.name:
        return (
            f"No controller-manager leads: the lease {leader.lease} has no holder. If a controller-manager "
            f"runs, it runs without leader election or with another lease; if not, {remedy}."
        )
    if leader.renewed and now - parse_time(leader.renewed) > _STALE * max(leader.seconds, 1):
        return (
            f"No controller-manager leads: {leader.name} holds the lease {leader.lease} but last renewed it "
            f"{_age(leader.renewed, now)} ago; {remedy}."
        )
    return ""


def _is_stuck(one: ObjectFindings) -> bool:
    if one.problem or one.deleting or any(each.get("outcome") in _STUCK for each in one.decisions):
        return True
    # What a pod's conditions report is in its problem.
    return one.kind != "Pod" and any(
        _is_notable(each) and each.get("message") and each.get("type") != _PROGRESSING
        for each in one.conditions
    )


def _name(one: ObjectFindings) -> str:
    return f"{one.kind} {f'{one.namespace}/' if one.namespace else ''}{one.name}"


def _age(moment: str, now: float) -> str:
    return human_age(max(0.0, now - parse_time(moment)))


def _when(moment: str, now: float) -> str:
    left = parse_time(moment) - now
    return f"in {human_age(left)}" if left > 0 else "at any moment"


def _indented(lines: Iterator[str]) -> list[str]:
    return [f"  {line}" for line in lines]
