"""How often Pod Security admission decided what, for ``/metrics``. Names and labels are kube-apiserver's."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

from pilothouse.api.pod_security.policy import NEWEST_MINOR, PRIVILEGED, LevelVersion
from pilothouse.apiserver.endpoints.call import ResourceRequest
from pilothouse.base.prometheus_text import counter, labels

_RESOURCES: Final = {"pods": "pod", "namespaces": "namespace"}


class PodSecurityCounts:
    """Counts evaluations, exemptions and errors. A label's values are few, whatever clients send."""

    def __init__(self) -> None:
        self._evaluations: Counter[str] = Counter()
        self._exemptions: Counter[str] = Counter()
        self._errors: Counter[str] = Counter()

    def evaluated(
        self, call: ResourceRequest, *, update: bool, mode: str, policy: LevelVersion, allowed: bool
    ) -> None:
        text = labels(
            decision="allow" if allowed else "deny",
            policy_level=policy.level,
            policy_version=_version(policy),
            mode=mode,
        )
        self._evaluations[f"{text},{_request(call, update)}"] += 1

    def exempted(self, call: ResourceRequest, *, update: bool) -> None:
        self._exemptions[_request(call, update)] += 1

    def failed(self, call: ResourceRequest, *, update: bool, fatal: bool) -> None:
        self._errors[f'fatal="{str(fatal).lower()}",{_request(call, update)}'] += 1

    def families(self) -> Iterator[str]:
        yield counter(
            "pod_security_evaluations_total",
            "Pods and templates that were held against a policy, without those that are exempt.",
            sorted(self._evaluations.items()),
        )
        yield counter(
            "pod_security_exemptions_total",
            "Requests that were exempt from Pod Security.",
            sorted(self._exemptions.items()),
        )
        yield counter(
            "pod_security_errors_total",
            "Labels or namespaces that could not be read; unless fatal, restricted was evaluated instead.",
            sorted(self._errors.items()),
        )


def _request(call: ResourceRequest, update: bool) -> str:
    return labels(
        request_operation="update" if update else "create",
        resource=_RESOURCES.get(call.served.kind.plural, "controller"),
        subresource=call.subresource,
    )


def _version(policy: LevelVersion) -> str:
    minor = policy.version.minor
    if minor is None or policy.level == PRIVILEGED:
        return "latest"
    return str(policy.version) if minor <= NEWEST_MINOR else "future"
