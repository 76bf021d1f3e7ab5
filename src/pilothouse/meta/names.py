"""Rules for names, and validation of ``metadata``.

    subdomain("db-1.example.com")     # ""
    subdomain("A_b")                  # "a lowercase RFC 1123 subdomain must consist of …"

``validate_object_meta`` applies the rules to an object's metadata; ``finalizer_warnings`` are only warnings.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import Any, Final

import msgspec

from pilothouse.meta.fields import MOST_PROBLEMS, FieldError, child, element

Rule = Callable[[str], str]
"""Returns what is wrong with a name, or the empty string."""

ANNOTATIONS_LIMIT: Final = 256 * 1024
_SUFFIX_ALPHABET: Final = "bcdfghjklmnpqrstvwxz2456789"
_SUFFIX_LENGTH: Final = 5
_GENERATED_LENGTH: Final = 63

_LABEL: Final = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN: Final = rf"{_LABEL}(\.{_LABEL})*"
_LABEL_1035: Final = "[a-z]([-a-z0-9]*[a-z0-9])?"
_QUALIFIED: Final = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_VALUE: Final = f"({_QUALIFIED})?"

_IS_QUALIFIED: Final = re.compile(_QUALIFIED).fullmatch
_QUALIFIED_TEXT: Final = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric "
    f"character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '{_QUALIFIED}')"
)
_EMPTY: Final = "must be non-empty"
_NAMES: Final = ("name", "generateName", "namespace")


def _too_long(limit: int) -> str:
    return f"must be no more than {limit} bytes"


def _matching(pattern: str, limit: int, text: str) -> Rule:
    """A rule for names of at most ``limit`` characters; ``text`` says what they have to be like."""
    matches = re.compile(pattern).fullmatch

    def rule(name: str) -> str:
        if len(name) > limit:
            return _too_long(limit)
        return "" if matches(name) else text

    return rule


subdomain: Final = _matching(
    _SUBDOMAIN,
    253,
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', "
    "and must start and end with an alphanumeric character "
    f"(e.g. 'example.com', regex used for validation is '{_SUBDOMAIN}')",
)
"""Names of most objects: an RFC 1123 subdomain of at most 253 characters."""
label: Final = _matching(
    _LABEL,
    63,
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', "
    "and must start and end with an alphanumeric character "
    f"(e.g. 'my-name',  or '123-abc', regex used for validation is '{_LABEL}')",
)
"""Namespaces and other parts of DNS names: an RFC 1123 label."""
label_1035: Final = _matching(
    _LABEL_1035,
    63,
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', "
    "start with an alphabetic character, and end with an alphanumeric character "
    f"(e.g. 'my-name',  or 'abc-123', regex used for validation is '{_LABEL_1035}')",
)
"""Services: an RFC 1035 label, which starts with a letter."""
label_value: Final = _matching(
    _VALUE,
    63,
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', "
    "and must start and end with an alphanumeric character "
    f"(e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '{_VALUE}')",
)
"""The value of a label; may be empty."""


def path_segment(name: str) -> str:
    """Names of RBAC objects: any single segment of a URL path."""
    if name in (".", ".."):
        return f"may not be '{name}'"
    for character in "/%":
        if character in name:
            return f"may not contain '{character}'"
    return ""


def qualified_name(name: str) -> str:
    """Label keys, annotation keys, finalizers: ``name`` or ``example.com/name``."""
    prefix, slash, last = name.rpartition("/")
    if "/" in prefix:
        return (
            f"a qualified name {_QUALIFIED_TEXT} with an optional DNS subdomain prefix and '/' (e.g. "
            "'example.com/MyName')"
        )
    if slash:
        problem = subdomain(prefix) if prefix else _EMPTY
        if problem:
            return f"prefix part {problem}"
    if not last:
        return f"name part {_EMPTY}"
    if len(last) > 63:
        return f"name part {_too_long(63)}"
    return "" if _IS_QUALIFIED(last) else f"name part {_QUALIFIED_TEXT}"


def generate_name(prefix: str, source: random.Random) -> str:
    """A name with this prefix that is unlikely to exist."""
    suffix = "".join(source.choices(_SUFFIX_ALPHABET, k=_SUFFIX_LENGTH))
    return prefix[: _GENERATED_LENGTH - _SUFFIX_LENGTH] + suffix


def validate_object_meta(
    meta: Mapping[str, Any],
    *,
    namespaced: bool,
    name_rule: Rule | None = None,
    live: Mapping[str, Any] | None = None,
) -> list[FieldError]:
    """All problems of an object's metadata, with the generated name filled in.

    ``live`` is the metadata before an update: unchanged parts are not checked again, because rules may have
    become stricter since.
    """
    problems: list[FieldError] = []
    before: Mapping[str, Any] = live or {}
    if live is None or any(meta.get(field) != before.get(field) for field in _NAMES):
        _check_names(meta, namespaced, name_rule or subdomain, problems)
    labels = meta.get("labels")
    if labels is not None and labels != before.get("labels"):
        problems += islice(validate_labels(labels, "metadata.labels"), MOST_PROBLEMS)
    annotations = meta.get("annotations")
    if annotations is not None and annotations != before.get("annotations"):
        problems += islice(validate_annotations(annotations, "metadata.annotations"), MOST_PROBLEMS)
    owners = meta.get("ownerReferences")
    if owners and owners != before.get("ownerReferences"):
        problems += islice(_owner_problems(owners, "metadata.ownerReferences"), MOST_PROBLEMS)
    finalizers = meta.get("finalizers")
    if finalizers and finalizers != before.get("finalizers"):
        problems += islice(_finalizer_problems(finalizers, "metadata.finalizers"), MOST_PROBLEMS)
    return problems


def validate_labels(labels: Any, path: str) -> Iterator[FieldError]:
    """Problems of a map of labels (also a template's or a selector's)."""
    if not isinstance(labels, dict):
        yield FieldError.type_invalid(path, labels, "must be a map of strings")
        return
    for key, value in labels.items():
        if problem := qualified_name(key):
            yield FieldError.invalid(path, key, problem)
        if not isinstance(value, str):
            yield FieldError.type_invalid(path, value, f'the value of label "{key}" must be a string')
        elif problem := label_value(value):
            yield FieldError.invalid(path, value, problem)


def validate_annotations(annotations: Any, path: str) -> Iterator[FieldError]:
    """Problems of annotations: keys like a label's in any case, 256 KiB in all."""
    if not isinstance(annotations, dict):
        yield FieldError.type_invalid(path, annotations, "must be a map of strings")
        return
    size = 0
    for key, value in annotations.items():
        if problem := qualified_name(key.lower()):
            yield FieldError.invalid(path, key, problem)
        if not isinstance(value, str):
            yield FieldError.type_invalid(path, value, f'the value of annotation "{key}" must be a string')
            continue
        size += _byte_length(key) + _byte_length(value)
    if size > ANNOTATIONS_LIMIT:
        yield FieldError.too_long(path, ANNOTATIONS_LIMIT)


def finalizer_warnings(meta: Mapping[str, Any], live: Mapping[str, Any] | None) -> list[str]:
    """Warnings for added finalizers whose names may clash. ``live`` is the metadata before the write."""
    there = {*_OWN_FINALIZERS, *((live or {}).get("finalizers") or ())}
    added = {
        each: None for each in meta.get("finalizers") or () if isinstance(each, str) and each not in there
    }
    return [
        f'metadata.finalizers: "{finalizer}": prefer a domain-qualified finalizer name '
        f"{'including a path (/) ' if '.' in finalizer else ''}"
        "to avoid accidental conflicts with other finalizer writers"
        for finalizer in sorted(added)
        if "/" not in finalizer
    ]


def dedupe_owner_references(meta: dict[str, Any]) -> list[str]:
    """Drop repeated owner references, in place; a warning if there were any."""
    owners = meta.get("ownerReferences")
    if not isinstance(owners, list) or len(owners) < 2:
        return []
    kept: dict[bytes, Any] = {}
    repeated: dict[str, None] = {}
    for owner in owners:
        spelled = msgspec.json.encode(owner, order="deterministic")
        if spelled in kept:
            repeated[str(owner.get("uid")) if isinstance(owner, dict) else "?"] = None
        kept.setdefault(spelled, owner)
    if not repeated:
        return []
    meta["ownerReferences"] = list(kept.values())
    return [
        ".metadata.ownerReferences contains duplicate entries, of which one was kept; "
        f"duplicate UID(s) observed: {', '.join(repeated)}"
    ]


_OWN_FINALIZERS: Final = frozenset(
    {"orphan", "foregroundDeletion", "kubernetes", "customresourcecleanup.apiextensions.k8s.io"}
)


def _check_names(meta: Mapping[str, Any], namespaced: bool, rule: Rule, problems: list[FieldError]) -> None:
    name, prefix, namespace = meta.get("name"), meta.get("generateName"), meta.get("namespace")
    if prefix:
        # A prefix usually ends in a dash, which its random suffix makes legal.
        complete = f"{prefix[:-1]}a" if prefix.endswith("-") else prefix
        if problem := rule(complete):
            problems.append(FieldError.invalid("metadata.generateName", prefix, problem))
    if not name:
        problems.append(FieldError.required("metadata.name", "name or generateName is required"))
    elif problem := rule(name):
        problems.append(FieldError.invalid("metadata.name", name, problem))
    if not namespaced:
        if namespace:
            problems.append(FieldError.forbidden("metadata.namespace", "not allowed on this type"))
    elif not namespace:
        problems.append(FieldError.required("metadata.namespace"))
    elif problem := label(namespace):
        problems.append(FieldError.invalid("metadata.namespace", namespace, problem))


def _owner_problems(owners: Any, path: str) -> Iterator[FieldError]:
    controller = None
    for index, owner in enumerate(owners):
        at = element(path, index)
        if not isinstance(owner, dict):
            yield FieldError.type_invalid(at, owner, "must be an object")
            continue
        for key, detail in _OWNER_FIELDS.items():
            if not owner.get(key):
                yield FieldError.invalid(child(at, key), owner.get(key, ""), detail)
        if owner.get("controller") is True:
            if controller is not None:
                yield FieldError.invalid(
                    path,
                    owners,
                    "Only one reference can have Controller set to true. "
                    f'Found "true" in references for {controller} and {owner.get("name", "")}',
                )
            controller = owner.get("name", "")


_OWNER_FIELDS: Final = {
    "apiVersion": "version must not be empty",
    "kind": "must not be empty",
    "name": "must not be empty",
    "uid": "must not be empty",
}


def _finalizer_problems(finalizers: Any, path: str) -> Iterator[FieldError]:
    for finalizer in finalizers:
        if not isinstance(finalizer, str):
            yield FieldError.type_invalid(path, finalizer, "must be a string")
        elif problem := qualified_name(finalizer):
            yield FieldError.invalid(path, finalizer, problem)
    if "orphan" in finalizers and "foregroundDeletion" in finalizers:
        yield FieldError.invalid(
            path, finalizers, "finalizer orphan and foregroundDeletion cannot be both set"
        )


def _byte_length(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
