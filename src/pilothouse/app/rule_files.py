"""Files with AutopilotRules, ApplicationPolicies or StoragePolicies, checked as the API server checks them.

for found in rules_in(path.read_bytes()): found.terms, found.notes
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

import msgspec

from pilothouse.api.kind_names import AutopilotRule
from pilothouse.api.openstorage import v1alpha1
from pilothouse.api.openstorage.rule_validation import check_application_policy, check_rule, default_rule
from pilothouse.api.policies.expansion import expand
from pilothouse.api.policies.module_registry import InvalidModule
from pilothouse.apiserver.endpoints import yaml_decoding
from pilothouse.rules.object_records import RuleTerms
from pilothouse.rules.storage_policies import KIND, PolicyError, translate

_DEEPEST: Final = 64
_KINDS: Final = ("AutopilotRule", "ApplicationPolicy", KIND)
_RULE: Final = {"apiVersion": AutopilotRule.api_version, "kind": AutopilotRule.kind}
_SEPARATOR: Final = re.compile(rb"^---(?:[ \t].*)?$", re.MULTILINE)


class RuleFileError(ValueError):
    """A file without a rule that could be followed."""


class RuleInFile(msgspec.Struct, frozen=True):
    terms: RuleTerms
    tree: dict[str, Any]
    volumes: tuple[str, ...] = ()
    """The only volumes that it is about, if it names them."""
    notes: tuple[str, ...] = ()
    translated: bool = False
    """From a StoragePolicy."""


def documents(content: bytes) -> Iterator[Any]:
    """Raises ``RuleFileError``."""
    for number, text in enumerate(_SEPARATOR.split(content), 1):
        if not text.strip():
            continue
        try:
            found, _ = yaml_decoding.load(text, _DEEPEST)
        except ValueError as problem:
            raise RuleFileError(f"document {number} can't be read: {problem}") from None
        if found is not None:
            yield found


def rules_in(content: bytes) -> list[RuleInFile]:
    """Raises ``RuleFileError``."""
    trees = [tree for tree in documents(content) if isinstance(tree, dict) and tree.get("kind") in _KINDS]
    found = [rule for tree in trees for rule in _rules(tree)]
    if not found:
        raise RuleFileError("there is no AutopilotRule, no ApplicationPolicy and no StoragePolicy in it")
    return found


def _rules(tree: dict[str, Any]) -> Iterator[RuleInFile]:
    if tree["kind"] == "AutopilotRule":
        default_rule(tree)
        yield RuleInFile(_terms(tree), tree)
    elif tree["kind"] == "ApplicationPolicy":
        yield from _expanded(tree)
    else:
        yield _translated(tree)


def _expanded(tree: dict[str, Any]) -> Iterator[RuleInFile]:
    name = str((tree.get("metadata") or {}).get("name") or "")
    try:
        policy = msgspec.to_builtins(msgspec.convert(tree, v1alpha1.ApplicationPolicy))
        problems = list(map(str, check_application_policy(policy, None)))
        found = expand(name, policy["spec"])
    except (msgspec.ValidationError, InvalidModule) as problem:
        raise RuleFileError(f"ApplicationPolicy {name}: {problem}") from None
    if problems := problems or list(map(str, found.problems)):
        raise RuleFileError(f"ApplicationPolicy {name}: {'; '.join(problems)}")
    for each in found.rules:
        rule = {**_RULE, "metadata": {"name": each.name}, "spec": each.spec}
        yield RuleInFile(_terms(rule), rule)


def _translated(tree: dict[str, Any]) -> RuleInFile:
    try:
        translated = translate(tree)
    except PolicyError as problem:
        raise RuleFileError(f"{KIND}: {problem}") from None
    return RuleInFile(
        _terms(translated.rule), translated.rule, translated.volumes, translated.notes, translated=True
    )


def _terms(tree: dict[str, Any]) -> RuleTerms:
    name = str((tree.get("metadata") or {}).get("name") or "")
    spec = tree.get("spec") or {}
    if isinstance(spec, dict) and isinstance(spec.get("conditions"), list):
        raise RuleFileError(
            f"AutopilotRule {name}: spec.conditions: is a list; write conditions: {{expressions: [...]}}"
        )
    try:
        rule = msgspec.convert(tree, v1alpha1.AutopilotRule)
    except msgspec.ValidationError as problem:
        raise RuleFileError(f"AutopilotRule {name}: {problem}") from None
    problems = [str(each) for each in check_rule(msgspec.to_builtins(rule), None)]
    if problems:
        raise RuleFileError(f"AutopilotRule {name}: {'; '.join(problems)}")
    return RuleTerms(name, 1, rule.spec)
