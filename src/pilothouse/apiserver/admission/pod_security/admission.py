"""Pod Security admission: evaluates pods against the policy of their namespace.

    security.admit(call, pod, None, namespace.value)      # 403: violates PodSecurity "baseline:latest": …

Pods are refused, or get warnings and audit annotations; pod templates are never refused. An update is
evaluated if it changes an image or adds a container, as the rest of a pod's spec is immutable.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, Final

import msgspec

from pilothouse.aio.worker_thread import on_loop
from pilothouse.api.pod_security.checks import Fields
from pilothouse.api.pod_security.evaluation import Evaluation, evaluate
from pilothouse.api.pod_security.policy import (
    MODES,
    PREFIX,
    PRIVILEGED,
    LevelVersion,
    NamespacePolicy,
    policy_of,
    strictness,
)
from pilothouse.apiserver.admission.pod_security.configuration import PodSecurityConfiguration
from pilothouse.apiserver.admission.pod_security.counts import PodSecurityCounts
from pilothouse.apiserver.admission.pod_security.existing_pods import existing_violations
from pilothouse.apiserver.discovery.catalog import ROOT
from pilothouse.apiserver.endpoints.call import ResourceRequest
from pilothouse.apiserver.storage.watch_cache import WatchCache
from pilothouse.base.clock import Clock
from pilothouse.meta import errors
from pilothouse.meta.fields import FieldError
from pilothouse.meta.kind import Object

_NOT_LOOKED_AT: Final = frozenset(
    {"exec", "attach", "binding", "eviction", "log", "portforward", "proxy", "status"}
)
"""Subresources of pods that can't change what a pod may do. All others are evaluated."""
_TEMPLATES: Final[Mapping[tuple[str, str], tuple[str, ...]]] = {
    ("", "podtemplates"): ("template",),
    ("", "replicationcontrollers"): ("spec", "template"),
    ("apps", "daemonsets"): ("spec", "template"),
    ("apps", "deployments"): ("spec", "template"),
    ("apps", "replicasets"): ("spec", "template"),
    ("apps", "statefulsets"): ("spec", "template"),
    ("batch", "jobs"): ("spec", "template"),
    ("batch", "cronjobs"): ("spec", "jobTemplate", "spec", "template"),
}
"""Where Kubernetes' kinds have their template of pods, by group and plural."""
_LABELS: Final = PREFIX.encode()


class _Labelled(msgspec.Struct):
    labels: dict[str, str] | None = None


class _Namespace(msgspec.Struct):
    metadata: _Labelled


_read_namespace: Final = msgspec.json.Decoder(_Namespace).decode


class PodSecurity:
    def __init__(self, configuration: PodSecurityConfiguration, cache: WatchCache, clock: Clock) -> None:
        self._defaults = configuration.defaults
        self._exempt = configuration.exemptions
        self._cache = cache
        self._clock = clock
        self.counts = PodSecurityCounts()

    def admit(self, call: ResourceRequest, new: Object, old: Object | None, namespace: bytes | None) -> None:
        """Raise for what is not allowed; else warn and annotate. ``namespace`` is the stored namespace, if
        known."""
        kind = call.served.kind
        if not kind.native:
            return
        if kind.plural == "pods":
            if call.subresource not in _NOT_LOOKED_AT:
                self._admit_pod(call, new, old, namespace)
        elif not call.subresource:
            if (path := _TEMPLATES.get((kind.group, kind.plural))) is not None:
                self._admit_template(call, _within(new, path), old is not None, namespace)
            elif kind.plural == "namespaces":
                self._admit_namespace(call, new, old)

    # Namespaces

    def _admit_namespace(self, call: ResourceRequest, new: Object, old: Object | None) -> None:
        call.request.late_warnings = None
        name = new["metadata"]["name"]
        labels = new["metadata"].get("labels") or {}
        policy, problems = policy_of(labels, self._defaults)
        before = policy
        if old is not None:
            before, old_problems = policy_of(old["metadata"].get("labels") or {}, self._defaults)
            if problems == old_problems:
                problems = []
        if problems:
            raise errors.invalid("Namespace", "", name, problems)
        if old is not None and not _is_stricter(policy.enforce, before.enforce):
            return
        if name in self._exempt.namespaces:
            if warning := self._ignored_policy(name, policy, labels):
                call.request.warnings.append(warning)
        elif old is not None:
            call.request.late_warnings = partial(self._existing_violations, name, policy.enforce)

    async def _existing_violations(self, namespace: str, enforce: LevelVersion) -> list[str]:
        items = self._cache.collection("pods").below(f"{ROOT}pods/{namespace}/")
        return await existing_violations(items, namespace, enforce, self._exempt.runtime_classes, self._clock)

    def _ignored_policy(self, name: str, policy: NamespacePolicy, labels: Mapping[str, str]) -> str:
        """The warning about policy labels in a namespace that is exempt."""
        if policy.is_privileged or policy.is_equivalent(self._defaults):
            return ""
        ignored = []
        for mode in MODES:
            of_mode: LevelVersion = getattr(policy, mode)
            named = f"{PREFIX}{mode}" in labels or f"{PREFIX}{mode}-version" in labels
            if named and of_mode.level != PRIVILEGED:
                ignored.append(f"{mode}={of_mode}")
        return (
            f'namespace "{name}" is exempt from Pod Security, and the policy ({", ".join(ignored)}) '
            "will be ignored"
        )

    # Pods

    def _admit_pod(
        self, call: ResourceRequest, new: Object, old: Object | None, namespace: bytes | None
    ) -> None:
        update = old is not None
        if self._is_exempt(call, update):
            return
        found = self._namespace(call, namespace)
        if found is None:
            if old is None or _is_significant(new, old):
                self.counts.failed(call, update=update, fatal=True)
                what = f'failed to lookup namespace "{call.namespace}"'
                _annotate(call, "error", what)
                raise errors.unavailable(f"{what}; please try again")
            return
        policy, problems = self._policy(found)
        if not problems and policy.is_privileged:
            self.counts.evaluated(call, update=update, mode="enforce", policy=policy.enforce, allowed=True)
            _annotate(call, "enforce-policy", f"{PRIVILEGED}:latest")
            return
        if old is None or _is_significant(new, old):
            self._evaluate(call, new, policy, problems, update=update, enforce=True)

    def _admit_template(
        self, call: ResourceRequest, template: Fields | None, update: bool, namespace: bytes | None
    ) -> None:
        if self._is_exempt(call, update):
            return
        found = self._namespace(call, namespace)
        if found is None:
            self.counts.failed(call, update=update, fatal=True)
            _annotate(call, "error", f'failed to lookup namespace "{call.namespace}"')
            return
        policy, problems = self._policy(found)
        if template is None or (not problems and policy.warn.level == policy.audit.level == PRIVILEGED):
            return
        self._evaluate(call, template, policy, problems, update=update, enforce=False)

    def _evaluate(
        self,
        call: ResourceRequest,
        pod: Fields,
        policy: NamespacePolicy,
        problems: list[FieldError],
        *,
        update: bool,
        enforce: bool,
    ) -> None:
        metadata, spec = pod.get("metadata") or {}, pod.get("spec") or {}
        if spec.get("runtimeClassName") and spec["runtimeClassName"] in self._exempt.runtime_classes:
            self._exempted(call, "runtimeClass", update)
            return
        if problems:
            _annotate(call, "error", f"Failed to parse policy: {_joined(problems)}")
            self.counts.failed(call, update=update, fatal=False)
        known: dict[LevelVersion, Evaluation] = {}

        def found(mode: str, wanted: LevelVersion) -> Evaluation:
            evaluation = known.get(wanted)
            if evaluation is None:
                evaluation = known[wanted] = evaluate(wanted, metadata, spec)
            if mode == "enforce" or not evaluation.allowed:
                allowed = evaluation.allowed
                count = partial(
                    self.counts.evaluated, call, update=update, mode=mode, policy=wanted, allowed=allowed
                )
                on_loop(count)
            return evaluation

        refusal = ""
        if enforce:
            _annotate(call, "enforce-policy", str(policy.enforce))
            if not (enforced := found("enforce", policy.enforce)).allowed:
                refusal = f'violates PodSecurity "{policy.enforce}": {enforced.detail}'
        if not (audited := found("audit", policy.audit)).allowed:
            text = f'would violate PodSecurity "{policy.audit}": {audited.detail}'
            _annotate(call, "audit-violations", text)
        if refusal:
            kind = call.served.kind
            raise errors.forbidden(kind.plural, kind.group, metadata.get("name") or "", refusal)
        if not (warned := found("warn", policy.warn)).allowed:
            call.request.warnings.append(f'would violate PodSecurity "{policy.warn}": {warned.detail}')

    # What is known

    def _is_exempt(self, call: ResourceRequest, update: bool) -> bool:
        if call.namespace in self._exempt.namespaces:
            self._exempted(call, "namespace", update)
            return True
        if call.request.user.name in self._exempt.usernames:
            self._exempted(call, "user", update)
            return True
        return False

    def _exempted(self, call: ResourceRequest, reason: str, update: bool) -> None:
        self.counts.exempted(call, update=update)
        _annotate(call, "exempt", reason)

    def _namespace(self, call: ResourceRequest, given: bytes | None) -> bytes | None:
        if given is not None:
            return given
        found = on_loop(self._cache.peek, f"{ROOT}namespaces/{call.namespace}")
        return None if found is None else found.value

    def _policy(self, namespace: bytes) -> tuple[NamespacePolicy, list[FieldError]]:
        if _LABELS not in namespace:
            return self._defaults, []
        return policy_of(_read_namespace(namespace).metadata.labels or {}, self._defaults)


def _annotate(call: ResourceRequest, name: str, text: str) -> None:
    call.request.annotations[f"{PREFIX}{name}"] = text


def _joined(problems: list[FieldError]) -> str:
    texts = list(dict.fromkeys(map(str, problems)))
    return texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"


def _is_stricter(new: LevelVersion, old: LevelVersion) -> bool:
    """Whether pods that were allowed may now be refused."""
    if new == old or new.level == PRIVILEGED:
        return False
    return new.version != old.version or strictness(new.level) > strictness(old.level)


def _is_significant(new: Object, old: Object) -> bool:
    """Whether an update of a pod changes what would run."""
    after, before = new.get("spec") or {}, old.get("spec") or {}
    for field in ("containers", "initContainers"):
        if _images(after, field) != _images(before, field):
            return True
    known = {each["name"]: each.get("image") for each in before.get("ephemeralContainers") or ()}
    return any(
        each["name"] not in known or known[each["name"]] != each.get("image")
        for each in after.get("ephemeralContainers") or ()
    )


def _images(spec: Fields, field: str) -> list[Any]:
    return [each.get("image") for each in spec.get(field) or ()]


def _within(obj: Object, path: tuple[str, ...]) -> Fields | None:
    found: Any = obj
    for name in path:
        found = (found or {}).get(name)
    return found if isinstance(found, dict) else None
