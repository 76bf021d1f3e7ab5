"""Findings in plain words: what is wrong, since when, and what would help; with ``verbose`` also what was read, decided and done.

    print("\\n".join(explained(findings, now=clock.now())))

    StatefulSet default/web:
      waits, since 4m10s: pod web-0 has no node yet
        what would help: start a node, or remove what keeps pods off those that there are

What is not known is said too, and why: no controller decides about the kind, or no manager leads.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pilothouse.api.objects import Tree
from pilothouse.base.duration import human_age
from pilothouse.base.rfc3339 import parse_time
from pilothouse.diagnosis.findings import Findings, ObjectFindings

_MOST_READ = 8
_MOST_ACTS = 10
_STALE = 2.0
"""After how many times its duration a lease that nobody renews counts as left."""
_STUCK = ("Waiting", "Failed")
_BAD_NEWS = frozenset(
    {
        *("MemoryPressure", "DiskPressure", "PIDPressure", "NetworkUnavailable"),
        *("NodeResizeError", "ControllerResizeError", "ModifyVolumeError"),
        *("NamespaceContentRemaining", "NamespaceFinalizersRemaining", "NamespaceDeletionContentFailure"),
        *("NamespaceDeletionDiscoveryFailure", "NamespaceDeletionGroupVersionParsingFailure"),
        *("DisruptionTarget", "Denied", "Failed", "Degraded", "EditedByHand", "Stopped", "Stalled"),
    }
)
_BAD_ENDINGS = (
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
"""Conditions that report a problem by being true, by their names or by how their names end; all others report one by not being true."""
_UNDER_WAY = "Progressing"
"""Neither good nor bad: True while something is changed, False when that is done or can't be."""
_DONE_WITH = frozenset({"AsAsked", "NewReplicaSetAvailable", "Complete"})
_NEUTRAL = frozenset({"Approved", "Decommissioned"})
_RECENT = 600.0
"""Seconds within which an event still explains what is so."""


def explained(findings: Findings, *, now: float, verbose: bool = False) -> list[str]:
    """The lines."""
    lines = [*_about(findings, now, verbose)]
    for owner in findings.owners:
        lines += ["", f"It belongs to {_name(owner)}:", *_indented(_known(owner, now, brief=True))]
    stuck = [each for each in findings.members if _is_stuck(each)]
    for member in stuck:
        lines += ["", f"{_name(member)}, which belongs to it:", *_indented(_known(member, now, brief=True))]
    if well := len(findings.members) - len(stuck):
        others = "other " if stuck else ""
        lines += [
            "",
            f"Nothing is amiss with the {others}{well} that belong{'s' if well == 1 else ''} to it.",
        ]
    if warning := _nobody_decides(findings, now):
        lines += ["", warning]
    return lines


def _about(findings: Findings, now: float, verbose: bool) -> Iterator[str]:
    about = findings.about
    if not about.there:
        yield f"There is no {_name(about)}."
        if not about.records:
            return
        yield "What was last decided about one of that name:"
    else:
        yield f"{_name(about)}:"
    yield from _indented(_known(about, now, verbose=verbose or not about.there))
    if not about.records and about.there:
        yield from _indented(_why_unknown(findings, now))


def _known(one: ObjectFindings, now: float, *, brief: bool = False, verbose: bool = False) -> Iterator[str]:
    said = [*_problems(one, now, brief=brief, verbose=verbose)]
    yield from said
    if not said and one.there and (brief or one.records):
        yield "nothing is wrong with it" if one.records else "nothing is on record"
    for event in one.events[: 2 if brief else None]:
        age = now - parse_time(_moment(event))
        if verbose or event.get("type") == "Warning" or age < _RECENT:
            times = f", {event['count']} times" if event.get("count", 1) > 1 else ""
            yield f"{human_age(max(0.0, age))} ago{times}: {event.get('reason', '')}: {event.get('message', '')}"


def _problems(one: ObjectFindings, now: float, *, brief: bool, verbose: bool) -> Iterator[str]:
    if one.deleting:
        held = f"; it stays until {', '.join(one.finalizers)} let it go" if one.finalizers else ""
        yield f"is being deleted, since {_age(one.deleting, now)}{held}"
    for record in sorted(
        one.records, key=lambda each: (each.get("outcome") not in _STUCK, each["controller"])
    ):
        if verbose or record.get("outcome") in _STUCK:
            yield from _record(record, now, brief=brief, verbose=verbose)
    waited_for = [record["waiting"].get("message", "") for record in one.records if "waiting" in record]
    if one.last_words:
        yield f"its last words: {one.last_words}"
    if one.trouble and not waited_for:
        yield one.trouble
        if one.remedy:
            yield f"  what would help: {one.remedy}"
    for condition in one.conditions:
        message = condition.get("message", "")
        # The runtime's own condition says what the record says.
        if _is_repeated(condition, one.conditions):
            continue
        if message and _is_worth_saying(condition) and not _is_waited_for(condition, waited_for):
            since = condition.get("lastTransitionTime")
            yield (
                f"condition {condition.get('type')} is {condition.get('status')} ({condition.get('reason', '')})"
                f"{f', since {_age(since, now)}' if since else ''}: {message}"
            )


def _is_waited_for(condition: Mapping[str, Any], waited_for: Sequence[str]) -> bool:
    """Whether a condition says what is waited for, which was shown already. What is amiss is more than what is waited for."""
    message = str(condition.get("message", ""))
    if condition.get("type") == "Degraded":
        return any(message in each for each in waited_for)
    return any(each in message for each in waited_for)


def _is_repeated(condition: Mapping[str, Any], conditions: Sequence[Mapping[str, Any]]) -> bool:
    """Whether a condition's message is all in that of another one that is shown, or the same as one before it."""
    message, index = str(condition.get("message", "")), conditions.index(condition)
    return any(
        message in str(other.get("message", "")) and (message != other.get("message") or place < index)
        for place, other in enumerate(conditions)
        if place != index and _is_worth_saying(other)
    )


def _is_worth_saying(condition: Mapping[str, Any]) -> bool:
    """Whether a condition reports a problem, or a change that is under way."""
    kind, status = str(condition.get("type", "")), condition.get("status")
    if kind == _UNDER_WAY:
        return status == "True" or condition.get("reason") not in _DONE_WITH
    if kind in _NEUTRAL and status != "Unknown":
        return False
    bad = kind in _BAD_NEWS or kind.endswith(_BAD_ENDINGS)
    return status != ("False" if bad else "True")


def _moment(event: Tree) -> str:
    return str(event.get("lastTimestamp") or event.get("eventTime") or event["metadata"]["creationTimestamp"])


def _record(record: Tree, now: float, *, brief: bool, verbose: bool) -> Iterator[str]:
    who, moment = record["controller"], record.get("time")
    age = _age(moment, now) if moment else "an unknown time"
    match record.get("outcome"):
        case "Waiting":
            waiting = record.get("waiting", {})
            since = f", since {_age(waiting['since'], now)}" if waiting.get("since") else ""
            yield f"waits{since}: {waiting.get('message', '')}"
            if waiting.get("remedy"):
                yield f"  what would help: {waiting['remedy']}"
            if waiting.get("until") and verbose:
                yield f"  it is looked at again {_when(waiting['until'], now)}, or when something changes"
        case "Failed":
            attempts = f", {record['attempts']} times in a row" if record.get("attempts", 0) > 1 else ""
            yield f"can't get on{attempts}: {record.get('summary', '').removeprefix('failed: ')}"
            yield "  it is tried again, each time after a longer pause"
        case "Nothing":
            yield f"is as it should be, since {age}"
        case _:
            yield f"last needed something {age} ago: {record.get('summary', '')}"
    if brief or not verbose:
        return
    yield f"  decided by {who}, {age} ago, on what it saw: {_read(record)}"
    acts = [each for each in record.get("intents") or () if each.get("verb") != "Wait"]
    for act in acts[:_MOST_ACTS]:
        yield f"  {_act(act)}"
    if len(acts) > _MOST_ACTS:
        yield f"  and {len(acts) - _MOST_ACTS} things more"


def _act(act: Mapping[str, Any]) -> str:
    about = act.get("object") or {}
    whom = f" {about.get('kind')} {about.get('name')}" if about else ""
    message = f" ({act['message']})" if act.get("message") else ""
    said = {
        "Done": "it did",
        "Skipped": "it was so already",
        "Failed": "it failed to",
        "Refused": "it was overtaken at",
        "Pending": "it is yet to",
    }.get(act.get("outcome", ""), "it decided to")
    return f"{said}: {act.get('verb')}{whom}{message}, because {act.get('because')}"


def _read(record: Tree) -> str:
    read = record.get("read") or ()
    if not read:
        return "the object alone"
    told = [
        f"{each['kind']} {each.get('name', '')} "
        + (f"(version {each['resourceVersion']})" if each.get("resourceVersion") else "(not there)")
        for each in read[:_MOST_READ]
    ]
    more = f" and {len(read) - _MOST_READ} more" if len(read) > _MOST_READ else ""
    return ", ".join(told) + more


def _why_unknown(findings: Findings, now: float) -> Iterator[str]:
    kind = findings.about.kind
    if not findings.deciders:
        yield f"no controller decides about {_one(kind)}, so nothing is on record"
    elif findings.foreign:
        yield (
            f"this is a real Kubernetes, whose own controllers decide about {_one(kind)}; "
            f"ours ({', '.join(findings.foreign)}) stay off, and theirs leave no record: see `kubectl describe`"
        )
    elif not findings.records_kept:
        yield "the server keeps no records of decisions; `pilothouse crds | kubectl apply -f -` brings the kind"
    else:
        names = ", ".join(findings.deciders)
        yield f"nothing is on record, though {names} would decide about it"
        if not _nobody_decides(findings, now):
            yield (
                "  either there was nothing to do yet, or the controller-manager runs without: "
                "its first line says which controllers it has, and --controllers which it should"
            )


def _nobody_decides(findings: Findings, now: float) -> str:
    office = findings.office
    start = "start one with `pilothouse controller-manager`"
    if not findings.deciders or findings.foreign:
        return ""
    if not office.name:
        return (
            f"Nobody decides at the moment: the lease {office.lease} is nobody's. If a controller-manager runs, it "
            f"runs without an election or by another lease; else {start}."
        )
    if office.renewed and now - parse_time(office.renewed) > _STALE * max(office.seconds, 1):
        return (
            f"Nobody decides at the moment: {office.name} held the lease {office.lease} and gave no sign "
            f"for {_age(office.renewed, now)}; {start}."
        )
    return ""


def _is_stuck(one: ObjectFindings) -> bool:
    if one.trouble or one.deleting or any(each.get("outcome") in _STUCK for each in one.records):
        return True
    # What a pod's conditions report is in its trouble.
    return one.kind != "Pod" and any(
        _is_worth_saying(each) and each.get("message") and each.get("type") != _UNDER_WAY
        for each in one.conditions
    )


def _name(one: ObjectFindings) -> str:
    return f"{one.kind} {f'{one.namespace}/' if one.namespace else ''}{one.name}"


def _age(moment: str, now: float) -> str:
    return human_age(max(0.0, now - parse_time(moment)))


def _when(moment: str, now: float) -> str:
    left = parse_time(moment) - now
    return f"in {human_age(left)}" if left > 0 else "any moment"


def _indented(lines: Iterator[str]) -> list[str]:
    return [f"  {line}" for line in lines]


def _one(kind: str) -> str:
    """With its article, by the sound that English gives to its first letter."""
    return f"{'an' if kind[:1] in 'AEIO' else 'a'} {kind}"
