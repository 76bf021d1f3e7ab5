"""Which objects a rule is about.

selection = RuleSelection.of(rule.spec)
selection.matches(one, namespace)
"""

from __future__ import annotations

from typing import Any

import msgspec

from pilothouse.api.objects import Object
from pilothouse.api.openstorage.v1alpha1 import AutopilotRuleSpec, Selector
from pilothouse.meta.selectors import LabelSelector


class RuleSelection(msgspec.Struct, frozen=True):
    """Selectors of objects and of their namespaces; None selects everything."""

    objects: LabelSelector | None
    namespaces: LabelSelector | None

    @classmethod
    def of(cls, spec: AutopilotRuleSpec) -> RuleSelection:
        """Raises ``SelectorError``."""
        return cls(_selector(spec.selector), _selector(spec.namespace_selector))

    def matches(self, one: Object, namespace: Object | None) -> bool:
        """Whether it selects an object in this namespace; None is that of a cluster-wide object."""
        if self.namespaces is not None and (
            namespace is None or not self.namespaces.matches(namespace.labels)
        ):
            return False
        return self.objects is None or self.objects.matches(one.labels)


def _selector(selector: Selector | None) -> LabelSelector | None:
    if selector is None or not (selector.match_labels or selector.match_expressions):
        return None
    tree: dict[str, Any] = msgspec.to_builtins(selector)
    return LabelSelector.from_object(tree)
