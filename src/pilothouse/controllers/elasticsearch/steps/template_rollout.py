"""What a set is told about its pods: what they are made from, and which of them may be made anew.

    templated(stateful_set, template, 2, because, event="")     # the template, and leave to make the pods from the third on anew
    held(stateful_set, template, because)                       # the template, and no pod is made anew before somebody deletes it

A template is told from another by the hash that it carries (``digest``). It is never written without saying which pods may go: a set would
take them all.
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


def digest(template: Tree) -> str:
    return str(template["metadata"]["annotations"][TEMPLATE])


def reason(stateful_set: Object, wanted: Tree) -> str:
    """What it is called to bring a set to a template."""
    same = annotation_of(stateful_set, VERSION) == wanted["metadata"]["annotations"][VERSION]
    return TEMPLATES if same else VERSIONS


def templated(stateful_set: Object, wanted: Tree, partition: int, because: str, *, event: str) -> Update:
    """The template goes out, and the pods from ``partition`` on are made anew, the highest first."""
    tree = stateful_set.thawed()
    tree["spec"]["template"] = wanted
    tree["spec"]["updateStrategy"] = _from(partition)
    return Update(stateful_set, tree, because=because, event=event)


def partitioned(stateful_set: Object, partition: int, because: str, *, event: str) -> Update:
    """The template stays, and the pods from ``partition`` on are made anew."""
    tree = stateful_set.thawed()
    tree["spec"]["updateStrategy"] = _from(partition)
    return Update(stateful_set, tree, because=because, event=event)


def held(stateful_set: Object, wanted: Tree, because: str) -> Update:
    """The template goes out, and no pod is made anew by itself."""
    tree = stateful_set.thawed()
    tree["spec"]["template"] = wanted
    tree["spec"]["updateStrategy"] = {"type": _ON_DELETE}
    return Update(stateful_set, tree, because=because)


def is_held(stateful_set: Object) -> bool:
    """Whether a set waits for its pods to be deleted."""
    return bool(stateful_set.at("spec", "updateStrategy", "type") == _ON_DELETE)


def _from(ordinal: int) -> Tree:
    return {"type": "RollingUpdate", "rollingUpdate": {"partition": ordinal}}
