"""What Pod Security admission does where namespaces say nothing, and whom it leaves alone."""

from __future__ import annotations

from typing import Final

import msgspec

from pilothouse.api.pod_security.policy import PRIVILEGED_POLICY, NamespacePolicy


class Exemptions(msgspec.Struct, frozen=True):
    """Requests that are not evaluated, by any one of these."""

    usernames: frozenset[str] = frozenset()
    namespaces: frozenset[str] = frozenset()
    runtime_classes: frozenset[str] = frozenset()


class PodSecurityConfiguration(msgspec.Struct, frozen=True):
    """As of a ``PodSecurityConfiguration`` of ``pod-security.admission.config.k8s.io``."""

    defaults: NamespacePolicy = PRIVILEGED_POLICY
    exemptions: Exemptions = Exemptions()


DEFAULT_CONFIGURATION: Final = PodSecurityConfiguration()
"""Everything is allowed where no label says otherwise, as in Kubernetes."""
