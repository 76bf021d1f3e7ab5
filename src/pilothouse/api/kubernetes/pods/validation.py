"""Validation of pods and pod templates."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from pilothouse.api.kubernetes.node_selectors import check_node_selector, check_node_selector_term
from pilothouse.api.kubernetes.pods.containers import check_containers, check_ids
from pilothouse.api.kubernetes.pods.updates import check_update
from pilothouse.api.kubernetes.pods.volumes import check_volumes
from pilothouse.api.kubernetes.shared_checks import (
    Problems,
    address,
    dns_label,
    follows,
    label_selector,
    named,
)
from pilothouse.meta.fields import FieldError, element
from pilothouse.meta.kind import Object
from pilothouse.meta.names import label_value, qualified_name, validate_annotations, validate_labels

MOST_SCHEDULING_TERMS: Final = 100
"""The maximum number of tolerations, of spread constraints, and of terms per list of an affinity."""
MOST_SCHEDULING_TEXT: Final = 16 * 1024
"""The maximum number of characters of all their selectors."""
_LARGEST_INT32: Final = 2**31 - 1
_LONGEST_SYSCTL: Final = 253
_SYSCTL_PART: Final = re.compile(r"[a-z0-9]([-_a-z0-9]*[a-z0-9])?").fullmatch
_EFFECTS: Final = ("NoExecute", "NoSchedule", "PreferNoSchedule")
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"


def validate_pod(new: Object, old: Object | None) -> Problems:
    """A pod; on update also that only what may change did."""
    if old is not None and new.get("spec") == old.get("spec"):
        return
    yield from check_spec(new["spec"], "spec")
    if old is not None:
        yield from check_update(new["spec"], old["spec"], "spec")


def check_template(template: Mapping[str, Any], path: str, claims: Collection[str] = ()) -> Problems:
    """A template; ``claims`` are volumes that its pods get from elsewhere."""
    metadata = template.get("metadata") or {}
    yield from validate_labels(metadata.get("labels") or {}, f"{path}.metadata.labels")
    yield from validate_annotations(metadata.get("annotations") or {}, f"{path}.metadata.annotations")
    yield from check_spec(template.get("spec") or {}, f"{path}.spec", claims)


def check_spec(spec: Mapping[str, Any], path: str, claims: Collection[str] = ()) -> Problems:
    """The specification of a pod."""
    volumes = spec.get("volumes") or ()
    yield from check_volumes(volumes, f"{path}.volumes")
    yield from check_containers(spec, {*claims, *(each.get("name", "") for each in volumes)}, path)
    deadline = spec.get("activeDeadlineSeconds")
    if deadline is not None and not 1 <= deadline <= _LARGEST_INT32:
        yield FieldError.invalid(
            f"{path}.activeDeadlineSeconds", deadline, f"must be between 1 and {_LARGEST_INT32}, inclusive"
        )
    for field in ("hostname", "subdomain"):
        if spec.get(field):
            yield from dns_label(f"{path}.{field}", spec[field])
    for field in ("serviceAccountName", "nodeName", "priorityClassName"):
        if spec.get(field):
            yield from named(f"{path}.{field}", spec[field])
    yield from validate_labels(spec.get("nodeSelector") or {}, f"{path}.nodeSelector")
    yield from check_ids(spec.get("securityContext") or {}, f"{path}.securityContext")
    sysctls = (spec.get("securityContext") or {}).get("sysctls") or ()
    yield from _check_sysctls(sysctls, f"{path}.securityContext.sysctls")
    for index, alias in enumerate(spec.get("hostAliases") or ()):
        yield from address(f"{element(f'{path}.hostAliases', index)}.ip", alias.get("ip", ""))
    if spec.get("dnsPolicy") == "None":
        yield from _check_dns(spec, f"{path}.dnsConfig")
    if crowded := list(_check_counts(spec, path)):
        yield from crowded
        return
    yield from _check_tolerations(spec, f"{path}.tolerations")
    yield from _check_affinity(spec.get("affinity") or {}, f"{path}.affinity")
    for index, constraint in enumerate(spec.get("topologySpreadConstraints") or ()):
        yield from _check_spread(constraint, element(f"{path}.topologySpreadConstraints", index))


def _check_sysctls(sysctls: Sequence[Mapping[str, Any]], path: str) -> Problems:
    """Names of sysctls are checked though our nodes set none, so that typos are reported."""
    seen = set()
    for index, sysctl in enumerate(sysctls):
        name, at = sysctl.get("name") or "", f"{element(path, index)}.name"
        if not name:
            yield FieldError.required(at, "")
        elif len(name) > _LONGEST_SYSCTL or not all(map(_SYSCTL_PART, re.split("[./]", name))):
            yield FieldError.invalid(
                at,
                name,
                "must be parts of a-z, 0-9, '-' and '_' with '.' or '/' between them, "
                "of at most 253 characters",
            )
        elif name in seen:
            yield FieldError.duplicate(at, name)
        seen.add(name)


def _check_counts(spec: Mapping[str, Any], path: str) -> Problems:
    """Limits on what the scheduler compares with every node and every pod."""
    lists = {field: spec.get(field) for field in ("tolerations", "topologySpreadConstraints")}
    affinity = spec.get("affinity") or {}
    for kind in ("podAffinity", "podAntiAffinity"):
        for field in (_REQUIRED, _PREFERRED):
            lists[f"affinity.{kind}.{field}"] = (affinity.get(kind) or {}).get(field)
    nodes = affinity.get("nodeAffinity") or {}
    lists[f"affinity.nodeAffinity.{_PREFERRED}"] = nodes.get(_PREFERRED)
    terms = (nodes.get(_REQUIRED) or {}).get("nodeSelectorTerms")
    lists[f"affinity.nodeAffinity.{_REQUIRED}.nodeSelectorTerms"] = terms
    for field, given in lists.items():
        if len(given or ()) > MOST_SCHEDULING_TERMS:
            yield FieldError.too_many(f"{path}.{field}", len(given or ()), MOST_SCHEDULING_TERMS)
    if len(str(affinity)) + len(str(spec.get("topologySpreadConstraints"))) > MOST_SCHEDULING_TEXT:
        detail = (
            f"together with {path}.topologySpreadConstraints must not be longer than "
            f"{MOST_SCHEDULING_TEXT} characters"
        )
        yield FieldError.forbidden(f"{path}.affinity", detail)


def _check_dns(spec: Mapping[str, Any], path: str) -> Problems:
    """With policy None, a pod needs its own nameservers."""
    config = spec.get("dnsConfig")
    if config is None:
        yield FieldError.required(path, "must provide `dnsConfig` when `dnsPolicy` is None")
    elif not config.get("nameservers"):
        yield FieldError.required(
            f"{path}.nameservers", "must provide at least one DNS nameserver when `dnsPolicy` is None"
        )


def _check_tolerations(spec: Mapping[str, Any], path: str) -> Problems:
    for index, toleration in enumerate(spec.get("tolerations") or ()):
        at = element(path, index)
        key, operator = toleration.get("key", ""), toleration.get("operator", "")
        value, effect = toleration.get("value", ""), toleration.get("effect", "")
        if key:
            yield from follows(f"{at}.key", key, qualified_name)
        elif operator != "Exists":
            yield FieldError.invalid(
                f"{at}.operator",
                operator,
                'operator must be Exists when `key` is empty, which means "match all values and all keys"',
            )
        if toleration.get("tolerationSeconds") is not None and effect != "NoExecute":
            yield FieldError.invalid(
                f"{at}.effect", effect, "effect must be 'NoExecute' when `tolerationSeconds` is set"
            )
        if operator in ("", "Equal"):
            yield from follows(f"{at}.operator", value, label_value)
        elif operator == "Exists":
            if value:
                yield FieldError.invalid(
                    f"{at}.operator", value, "value must be empty when `operator` is 'Exists'"
                )
        else:
            yield FieldError.not_supported(f"{at}.operator", operator, ["Equal", "Exists"])
        if effect and effect not in _EFFECTS:
            yield FieldError.not_supported(f"{at}.effect", effect, _EFFECTS)


def _check_affinity(affinity: Mapping[str, Any], path: str) -> Problems:
    for kind in ("podAffinity", "podAntiAffinity"):
        terms = affinity.get(kind) or {}
        for index, term in enumerate(terms.get(_REQUIRED) or ()):
            yield from _check_term(term, element(f"{path}.{kind}.{_REQUIRED}", index))
        for index, weighted in enumerate(terms.get(_PREFERRED) or ()):
            at = element(f"{path}.{kind}.{_PREFERRED}", index)
            yield from _check_weight(weighted, at)
            yield from _check_term(weighted.get("podAffinityTerm") or {}, f"{at}.podAffinityTerm")
    nodes = affinity.get("nodeAffinity") or {}
    required = nodes.get(_REQUIRED)
    if required is not None:
        yield from check_node_selector(required, f"{path}.nodeAffinity.{_REQUIRED}")
    for index, weighted in enumerate(nodes.get(_PREFERRED) or ()):
        at = element(f"{path}.nodeAffinity.{_PREFERRED}", index)
        yield from _check_weight(weighted, at)
        yield from check_node_selector_term(weighted.get("preference") or {}, f"{at}.preference")


def _check_weight(weighted: Mapping[str, Any], path: str) -> Problems:
    if not 1 <= weighted.get("weight", 0) <= 100:
        yield FieldError.invalid(f"{path}.weight", weighted.get("weight", 0), "must be in the range 1-100")


def _check_term(term: Mapping[str, Any], path: str) -> Problems:
    if not term.get("topologyKey"):
        yield FieldError.required(f"{path}.topologyKey", "can not be empty")
    for field in ("labelSelector", "namespaceSelector"):
        if term.get(field) is not None:
            yield from label_selector(term[field], f"{path}.{field}")


def _check_spread(constraint: Mapping[str, Any], path: str) -> Problems:
    if constraint.get("maxSkew", 0) <= 0:
        yield FieldError.invalid(f"{path}.maxSkew", constraint.get("maxSkew", 0), "must be greater than zero")
    if not constraint.get("topologyKey"):
        yield FieldError.required(f"{path}.topologyKey", "can not be empty")
    if constraint.get("labelSelector") is not None:
        yield from label_selector(constraint["labelSelector"], f"{path}.labelSelector")
