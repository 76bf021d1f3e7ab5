"""The composition of ``pilothouse rule explain``: asks the leading controller-manager by a Question."""

from __future__ import annotations

import asyncio
import random
from contextlib import suppress
from typing import Final

import msgspec

from pilothouse.api.kind_names import (
    AutopilotRule,
    AutopilotRuleObject,
    KindName,
    PersistentVolumeClaim,
    Question,
)
from pilothouse.api.objects import Tree
from pilothouse.api.openstorage.levels import object_of_rule
from pilothouse.api.pilothouse.v1alpha1 import QuestionStatus, RuleReading
from pilothouse.base.clock import SystemClock
from pilothouse.base.rfc3339 import parse_time
from pilothouse.client.access import Access
from pilothouse.client.api import Api
from pilothouse.client.http_transport import HttpTransport
from pilothouse.client.transport import TransportError
from pilothouse.meta.errors import StatusError
from pilothouse.rules.object_types import CLUSTER_WIDE_RECORDS, kinds_of
from pilothouse.rules.rule_object_status import RULE_LABEL, label_value

_STEP: Final = 0.1
_AGENT: Final = "pilothouse-rule-explain"


class ExplainError(Exception):
    """There is no answer; the message says why, and what to do."""


class ExplainedNamespace(msgspec.Struct, frozen=True, rename="camel"):
    """What is known of a rule's objects in a namespace."""

    namespace: str
    time: str
    objects: tuple[RuleReading, ...] = ()
    left_out: int = 0
    message: str = ""
    """Why there are no objects."""

    @property
    def now(self) -> float:
        """When it was answered, by the clock of the manager."""
        return parse_time(self.time)


async def explain_rule(
    access: Access, rule: str, name: str, namespace: str, timeout: float
) -> list[ExplainedNamespace]:
    """Ask about a rule's objects, or about the one of this name; without a namespace, in all where the
    rule has objects.

    Raises ``ExplainError``, ``StatusError``, ``TransportError``.
    """
    async with HttpTransport.open(access, SystemClock(), agent=_AGENT) as transport:
        api = Api(transport, random.Random(), manager=_AGENT, wait_for_server=False)
        about = await _about(api, rule)
        if name:
            space = namespace or access.namespace
            kinds = kinds_of(about) or (PersistentVolumeClaim,)
            if not kinds[0].namespaced:
                space = CLUSTER_WIDE_RECORDS
            answers = []
            for kind in kinds:
                answers.append(_about_rule(await _ask(api, kind, name, space, timeout), rule, kind, name))
                if answers[-1].objects:
                    return answers[-1:]
            return answers[:1]
        spaces = [namespace] if namespace else await _spaces(api, rule)
        return [await _ask(api, AutopilotRule, rule, space, timeout) for space in spaces]


async def _about(api: Api, rule: str) -> str:
    """The type of the rule's objects. A user of a namespace may not see rules, and is taken to ask about a
    claim; the answer says nothing of a rule that does not exist."""
    try:
        return object_of_rule((await api.get(AutopilotRule, rule)).spec)
    except StatusError as refusal:
        if refusal.code != 403:
            raise
    return "volume"


async def _spaces(api: Api, rule: str) -> list[str]:
    try:
        found = await api.list(AutopilotRuleObject, labels=f"{RULE_LABEL}={label_value(rule)}")
    except StatusError as refusal:
        if refusal.code != 403:
            raise
        raise ExplainError(f"{refusal}; give a namespace with --namespace") from None
    if not found.objects:
        raise ExplainError(
            f"rule {rule} has no objects: the condition Ready of `kubectl describe ar {rule}` says why"
        )
    return sorted({one.namespace for one in found.objects})


async def _ask(api: Api, noun: KindName, name: str, namespace: str, timeout: float) -> ExplainedNamespace:
    tree: Tree = {
        "apiVersion": Question.api_version,
        "kind": Question.kind,
        "metadata": {"namespace": namespace, "generateName": "explain-"},
        "spec": {"about": {"kind": noun.kind, "name": name}, "what": "Reading"},
    }
    asked = await api.create(Question, tree)
    try:
        async with asyncio.timeout(timeout):
            while not asked.status.get("time"):
                await asyncio.sleep(_STEP)
                asked = await api.get(Question, asked.name, namespace)
    except TimeoutError:
        raise ExplainError(
            f"no controller-manager has answered for {timeout:g} seconds; "
            "check that one runs: `kubectl get leases -n kube-system` shows which one leads"
        ) from None
    finally:
        # Otherwise it is deleted after a minute.
        with suppress(StatusError, TransportError):
            await api.delete(Question, asked.name, namespace)
    status = msgspec.convert(asked.status, QuestionStatus)
    return ExplainedNamespace(namespace, status.time or "", status.answer, status.left_out, status.message)


def _about_rule(found: ExplainedNamespace, rule: str, kind: KindName, name: str) -> ExplainedNamespace:
    objects = tuple(one for one in found.objects if one.rule == rule)
    message = found.message
    if found.objects and not objects:
        others = ", ".join(sorted({one.rule for one in found.objects}))
        message = f"rule {rule} does not select the {kind.kind} {name}; {others} does"
    return msgspec.structs.replace(found, objects=objects, message=message)
