"""AutopilotRuleObjects as records, and records as their status.

record = record_of(rule_object, one.uid)
SetStatus(rule_object, status_of(record, one), because=...)
"""

from __future__ import annotations

import hashlib
from typing import Final

import msgspec

from pilothouse.api.kind_names import AutopilotRuleObject
from pilothouse.api.objects import Object, Tree, owner_reference
from pilothouse.api.openstorage.v1alpha1 import (
    AutopilotRuleObjectStatus,
    ObjectReference,
    RuleObjectItem,
)
from pilothouse.base.rfc3339 import format_time, parse_time
from pilothouse.rules.object_records import ObjectRecord, RecordItem
from pilothouse.rules.object_types import records_of, subject_of

RULE_LABEL: Final = "rule"
OBJECT_LABEL: Final = "object"
_LONGEST_LABEL: Final = 63
_LONGEST_NAME: Final = 253


def rule_object_name(rule: str, subject: str) -> str:
    """The name of the AutopilotRuleObject of an object under a rule; see ``subject_of``."""
    return _within(f"{subject}-{rule}", _LONGEST_NAME)


def approval_name(rule: str, subject: str) -> str:
    return _within(f"{rule}-{subject}", _LONGEST_NAME)


def label_value(text: str) -> str:
    """A name as the value of a label, which is shorter than a name may be."""
    return _within(text, _LONGEST_LABEL)


def new_rule_object(rule: Object, one: Object) -> Tree:
    """The AutopilotRuleObject of an object, which the garbage collector deletes with its rule."""
    subject = subject_of(one)
    return {
        "apiVersion": AutopilotRuleObject.api_version,
        "kind": AutopilotRuleObject.kind,
        "metadata": {
            "name": rule_object_name(rule.name, subject),
            "namespace": records_of(one),
            "labels": {RULE_LABEL: label_value(rule.name), OBJECT_LABEL: label_value(subject)},
            "ownerReferences": [owner_reference(rule)],
        },
    }


def reference(one: Object) -> ObjectReference:
    return ObjectReference(
        kind=one.kind,
        name=one.name,
        api_version=one.api_version,
        namespace=one.namespace,
        uid=one.uid,
    )


def record_of(rule_object: Object, uid: str) -> ObjectRecord:
    """What the status says; nothing if it is about an earlier object of the same name."""
    status = msgspec.convert(rule_object.status, AutopilotRuleObjectStatus)
    if status.object is None or status.object.uid != uid:
        return ObjectRecord()
    return ObjectRecord(
        state=status.state,
        since=parse_time(status.since) if status.since else 0.0,
        until=parse_time(status.until) if status.until else None,
        generation=status.rule_generation or 0,
        triggers=status.triggers,
        failures=status.failures,
        action=status.action,
        approval=status.approval,
        candidate=status.candidate,
        approaching=status.approaching,
        items=tuple(
            RecordItem(
                item.state,
                parse_time(item.last_process_timestamp) if item.last_process_timestamp else 0.0,
                item.message,
                item.action_approval_name,
            )
            for item in status.items
        ),
    )


def status_of(record: ObjectRecord, one: Object) -> Tree:
    status = AutopilotRuleObjectStatus(
        items=tuple(
            RuleObjectItem(
                state=item.state,
                last_process_timestamp=format_time(item.time),
                message=item.message,
                action_approval_name=item.approval,
            )
            for item in record.items
        ),
        state=record.state,
        object=reference(one),
        rule_generation=record.generation,
        since=format_time(record.since),
        until=format_time(record.until) if record.until is not None else None,
        triggers=record.triggers,
        failures=record.failures,
        action=record.action,
        approval=record.approval,
        candidate=record.candidate,
        approaching=record.approaching,
    )
    tree: Tree = msgspec.to_builtins(status)
    return tree


def _within(text: str, longest: int) -> str:
    if len(text) <= longest:
        return text
    digest = hashlib.sha256(text.encode()).hexdigest()[:16]
    return f"{text[: longest - 17].rstrip('-.')}-{digest}"
