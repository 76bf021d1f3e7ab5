"""The composition of ``pilothouse rule explain``: asks the leading controller-manager by a Question."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Collection, Mapping
from contextlib import suppress
from typing import Final

import msgspec

from pilothouse.api.kind_names import (
    ApplicationPolicy,
    AutopilotRule,
    AutopilotRuleObject,
    KindName,
    PersistentVolumeClaim,
    Question,
)
from pilothouse.api.objects import Tree
from pilothouse.api.openstorage.actions import CLUSTER_WIDE_RECORDS
from pilothouse.api.openstorage.levels import object_of_rule
from pilothouse.api.pilothouse.v1alpha1 import QuestionStatus, RuleReading
from pilothouse.base.clock import SystemClock
from pilothouse.base.rfc3339 import parse_time
from pilothouse.client.access import Access
from pilothouse.client.api import Api
from pilothouse.client.http_transport import HttpTransport
from pilothouse.client.transport import TransportError
from pilothouse.meta.errors import StatusError
from pilothouse.rules.object_types import kinds_of
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
        rules = await _rules(api, rule)
        if name:
            space = namespace or access.namespace
            return [await _explain_object(api, rules, name, space, timeout)]
        answers: list[ExplainedNamespace] = []
        problems: list[ExplainError] = []
        for one in rules:
            try:
                spaces = [namespace] if namespace else await _spaces(api, one)
            except ExplainError as problem:
                problems.append(problem)
                continue
            answers += [await _ask(api, AutopilotRule, one, space, timeout) for space in spaces]
        if problems and not answers:
            raise problems[0]
        return answers


async def _explain_object(
    api: Api, rules: Mapping[str, str], name: str, namespace: str, timeout: float
) -> ExplainedNamespace:
    """What is known of the object of this name under these rules; of several kinds, the first that has it."""
    kinds = dict.fromkeys(kind for about in rules.values() for kind in kinds_of(about))
    answers = []
    for kind in kinds or (PersistentVolumeClaim,):
        space = namespace if kind.namespaced else CLUSTER_WIDE_RECORDS
        answers.append(_about_rules(await _ask(api, kind, name, space, timeout), rules, kind, name))
        if answers[-1].objects:
            return answers[-1]
    return answers[0]


async def _rules(api: Api, name: str) -> dict[str, str]:
    """What each rule is about: the rule of this name, or those of the ApplicationPolicy of this name.

    A user of a namespace may not see rules, and is taken to ask about a claim; the answer says nothing of a
    rule that does not exist.
    """
    try:
        return {name: object_of_rule((await api.get(AutopilotRule, name)).spec)}
    except StatusError as refusal:
        if refusal.code == 404:
            return await _rules_of_policy(api, name, refusal)
        if refusal.code != 403:
            raise
    return {name: "volume"}


async def _rules_of_policy(api: Api, name: str, refusal: StatusError) -> dict[str, str]:
    """Raises the refusal if there is no ApplicationPolicy either."""
    try:
        policy = await api.get(ApplicationPolicy, name)
    except StatusError:
        raise refusal from None
    named = [str(each["name"]) for each in policy.status.get("rules") or ()]
    found = [rule for each in named if (rule := await api.find(AutopilotRule, each)) is not None]
    if found:
        return {rule.name: object_of_rule(rule.spec) for rule in found}
    raise ExplainError(
        f"ApplicationPolicy {name} has no rules: the condition Ready of `kubectl describe ap {name}` says why"
    )


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


def _about_rules(
    found: ExplainedNamespace, rules: Collection[str], kind: KindName, name: str
) -> ExplainedNamespace:
    objects = tuple(one for one in found.objects if one.rule in rules)
    message = found.message
    if found.objects and not objects:
        others = ", ".join(sorted({one.rule for one in found.objects}))
        message = f"rule {' and '.join(rules)} does not select the {kind.kind} {name}; {others} does"
    return msgspec.structs.replace(found, objects=objects, message=message)
