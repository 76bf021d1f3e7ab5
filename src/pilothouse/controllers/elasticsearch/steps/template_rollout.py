"""Writes to a StatefulSet: the template of its pods, and which of them may be replaced.

    roll_template(stateful_set, template, 2, because, event="")   # set it, replace pods from ordinal 2 up
    roll_from(stateful_set, 1, because, event="")                 # replace pods from ordinal 1 up
    hold_template(stateful_set, template, because)                # set it, replace deleted pods only

Templates are compared by the hash that each carries (``template_digest``). A template is never written
without a partition: the set would replace all pods.
"""

from __future__ import annotations

from typing import Final

from pilothouse.api.navigator.labels import TEMPLATE, VERSION
from pilothouse.api.objects import Object, Tree
from pilothouse.controllers.elasticsearch.desired.pool_stateful_set import annotation_of
from pilothouse.runtime.intents import Update

VERSIONS: Final = "RollingVersion"
TEMPLATES: Final = "RollingPods"
_ON_DELETE: Final = "OnDelete"


def template_digest(template: Tree) -> str:
    return str(template["metadata"]["annotations"][TEMPLATE])


def rollout_reason(stateful_set: Object, wanted: Tree) -> str:
    """The reason in conditions for bringing a set to a template."""
    same = annotation_of(stateful_set, VERSION) == wanted["metadata"]["annotations"][VERSION]
    return TEMPLATES if same else VERSIONS


def roll_template(stateful_set: Object, wanted: Tree, partition: int, because: str, *, event: str) -> Update:
    """Set the template, and replace the pods from ``partition`` up, the highest first."""
    tree = stateful_set.thawed()
    tree["spec"]["template"] = wanted
    tree["spec"]["updateStrategy"] = _partition(partition)
    return Update(stateful_set, tree, because=because, event=event)


def roll_from(stateful_set: Object, partition: int, because: str, *, event: str) -> Update:
    """Keep the template, and replace the pods from ``partition`` up."""
    tree = stateful_set.thawed()
    tree["spec"]["updateStrategy"] = _partition(partition)
    return Update(stateful_set, tree, because=because, event=event)


def hold_template(stateful_set: Object, wanted: Tree, because: str) -> Update:
    """Set the template, and replace a pod only when it is deleted."""
    tree = stateful_set.thawed()
    tree["spec"]["template"] = wanted
    tree["spec"]["updateStrategy"] = {"type": _ON_DELETE}
    return Update(stateful_set, tree, because=because)


def is_held(stateful_set: Object) -> bool:
    """Whether a set replaces pods only when they are deleted."""
    return bool(stateful_set.at("spec", "updateStrategy", "type") == _ON_DELETE)


def _partition(ordinal: int) -> Tree:
    return {"type": "RollingUpdate", "rollingUpdate": {"partition": ordinal}}
