"""Decision objects: what is recorded of a decision, and when.

    tree = record(controller, seen, world, result, author=..., attempts=...)
    if worth_writing(tree, before):
        ...

A Decision says what was read, decided and done, why, and what the controller waits for. It is written when
the decision changes, and not for another decision to do nothing: the last thing that was done stays readable.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from typing import Any

from pilothouse.api.kind_names import Decision, KindName
from pilothouse.api.objects import Object, Tree, owner_reference
from pilothouse.base.rfc3339 import format_time
from pilothouse.runtime.controller import Controller
from pilothouse.runtime.intents import RequeueAfter, subject
from pilothouse.runtime.reconcile_result import NOTHING, ExecutedIntent, IntentOutcome, ReconcileResult
from pilothouse.runtime.snapshot import ObjectRead, Snapshot

MOST_INTENTS = 50
_LONGEST_NAME = 253
_OPEN = frozenset({"Waiting", "Failed"})
"""Outcomes that a later decision resolves."""
_UNFIT = re.compile(r"[^a-z0-9.-]")


def record_name(controller: str, noun: KindName, name: str) -> str:
    """The name of the Decision, one per controller and object; a too long one ends in a digest."""
    name = ".".join(part for part in (controller, noun.kind, noun.group, name) if part)
    name = _UNFIT.sub("-", name.lower())
    if len(name) <= _LONGEST_NAME:
        return name
    digest = hashlib.sha256(name.encode()).hexdigest()[:16]
    return f"{name[: _LONGEST_NAME - 17].rstrip('-.')}-{digest}"


def record(
    controller: Controller,
    seen: Object,
    world: Snapshot,
    result: ReconcileResult,
    *,
    manager: str,
    attempts: int,
) -> Tree:
    executed = [each for each in result.executed if not isinstance(each.intent, RequeueAfter)]
    tree: Tree = {
        "apiVersion": Decision.api_version,
        "kind": Decision.kind,
        "metadata": {
            "name": record_name(controller.name, seen.noun, seen.name),
            "namespace": seen.namespace or "default",
            "ownerReferences": [owner_reference(seen, controller=False, blocks=False)],
        },
        "controller": controller.name,
        "object": _filled(
            apiVersion=seen.api_version,
            kind=seen.kind,
            namespace=seen.namespace,
            name=seen.name,
            uid=seen.uid,
        ),
        "outcome": result.standing,
        "time": format_time(world.now),
        "read": [_reading(one) for one in world.read if _may_be_named(one, seen)],
        "intents": [_intent(each) for each in executed[:MOST_INTENTS]],
        "summary": summary(result, executed),
        "manager": manager,
    }
    if attempts:
        tree["attempts"] = attempts
    wait = result.wait
    if wait is not None and result.standing == "Waiting":
        tree["waiting"] = _filled(
            reason=wait.reason,
            message=wait.because,
            since=format_time(world.now),
            until=format_time(world.now + wait.seconds) if wait.seconds is not None else "",
            remedy=wait.remedy,
        )
    return tree


def _may_be_named(read: ObjectRead, seen: Object) -> bool:
    """A Decision is readable in its object's namespace, so it names objects of that namespace only."""
    return not seen.namespace or read.namespace == seen.namespace


def summary(result: ReconcileResult, executed: list[ExecutedIntent]) -> str:
    if result.failure:
        return f"failed: {result.failure}"
    if result.wait is not None:
        return f"waiting: {result.wait.because}"
    if not result.done:
        return "as it should be"
    more = len(result.done) - 1
    first = result.done[0].intent.because
    return f"{first} (and {more} more)" if more else first


def is_idle(outcome: str, before: str) -> bool:
    """True for a decision to do nothing after one that left nothing open, which is not recorded."""
    return outcome == NOTHING and before not in _OPEN


def worth_writing(new: Tree, old: Mapping[str, Any] | None) -> bool:
    """True if the decision differs from the recorded one."""
    if new["outcome"] == NOTHING:
        return not is_idle(NOTHING, outcome_of(old))
    return old is None or _same(new) != _same(old)


def outcome_of(record: Mapping[str, Any] | None) -> str:
    """The outcome of a recorded decision; empty if there is none."""
    return str(record.get("outcome", "")) if record is not None else ""


def carried_on(new: Tree, old: Mapping[str, Any] | None) -> Tree:
    """The new record, with the time since which the controller has waited for the same reason."""
    before = (old or {}).get("waiting")
    if not before or "waiting" not in new or before.get("reason") != new["waiting"]["reason"]:
        return new
    return {**new, "waiting": {**new["waiting"], "since": before.get("since", new["waiting"]["since"])}}


def gist(tree: Mapping[str, Any]) -> Tree:
    """The part of a record that is needed to compare it with the next decision."""
    kept = {name: tree[name] for name in ("outcome", "waiting", "intents") if name in tree}
    return {**kept, "object": {"uid": tree.get("object", {}).get("uid", "")}}


def _same(tree: Mapping[str, Any]) -> Any:
    """What makes two decisions the same: not the time, the process or the versions that were read."""
    waiting = tree.get("waiting") or {}
    return (
        tree.get("outcome"),
        tree.get("object", {}).get("uid"),
        [
            (one.get("verb"), one.get("because"), one.get("object"), one.get("outcome"), one.get("message"))
            for one in tree.get("intents") or ()
            if one.get("outcome") != IntentOutcome.SKIPPED
        ],
        (waiting.get("reason"), waiting.get("message"), waiting.get("remedy")),
    )


def _reading(one: ObjectRead) -> Tree:
    return _filled(
        apiVersion=one.noun.api_version,
        kind=one.noun.kind,
        namespace=one.namespace,
        name=one.name,
        resourceVersion=one.resource_version,
    )


def _intent(each: ExecutedIntent) -> Tree:
    tree = _filled(verb=each.intent.verb, outcome=str(each.outcome), message=each.message)
    tree["because"] = each.intent.because
    about = subject(each.intent)
    if about is not None and about[3]:
        tree["object"] = _filled(apiVersion=about[0], kind=about[1], namespace=about[2], name=about[3])
    return tree


def _filled(**fields: str) -> Tree:
    return {name: value for name, value in fields.items() if value}
