"""The kinds of the group ``pilothouse.io``.

They have no category: there is a Decision per object and controller, a Question exists for a minute, and
``kubectl get pilothouse`` is for what people write.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, Final

from pilothouse.api.applications.registry import applications
from pilothouse.api.kind_names import (
    AutopilotRule,
    Deployment,
    Node,
    PersistentVolumeClaim,
    Pod,
    StatefulSet,
    StoragePool,
)
from pilothouse.api.own_kinds import AGE, GroupVersion, condition_column, path_column
from pilothouse.api.pilothouse import v1alpha1
from pilothouse.base.quantity import QuantityError, parse_quantity
from pilothouse.meta.fields import FieldError
from pilothouse.meta.kind import Resource, single


def check_decision(new: Mapping[str, Any], old: Mapping[str, Any] | None) -> Iterator[FieldError]:
    """A decision has ``waiting`` exactly if it waits, and never changes its controller or object."""
    waits = new["outcome"] == "Waiting"
    if waits and "waiting" not in new:
        yield FieldError.required("waiting", "what is waited for, since the outcome is Waiting")
    elif "waiting" in new and not waits:
        yield FieldError.forbidden("waiting", f"the outcome is {new['outcome']}, so nothing is waited for")
    if old is None:
        return
    if new["controller"] != old["controller"]:
        yield FieldError.forbidden("controller", f"is {old['controller']} and can't be changed")
    for name in ("apiVersion", "kind", "namespace", "name"):
        before = old["object"].get(name, "")
        if new["object"].get(name, "") != before:
            yield FieldError.forbidden(f"object.{name}", f"is {before!r} and can't be changed")


def check_question(new: Mapping[str, Any], old: Mapping[str, Any] | None) -> Iterator[FieldError]:
    """A question is about a rule or about what rules watch, and can't be changed. What is not cluster-wide is
    of its own namespace.

    It has neither finalizers nor owners: readers of a namespace may create it, and it must not hold anything
    back from being deleted."""
    if old is not None:
        if new["spec"] != old["spec"]:
            yield FieldError.forbidden("spec", "a Question can't be changed; create another one")
        return
    metadata, about = new["metadata"], new["spec"]["about"]
    for name in ("finalizers", "ownerReferences"):
        if metadata.get(name):
            yield FieldError.forbidden(f"metadata.{name}", "a Question can't have any")
    kinds = _asked_about()
    if about["kind"] not in kinds:
        yield FieldError.not_supported("spec.about.kind", about["kind"], tuple(kinds))
        return
    api_version, namespaced = kinds[about["kind"]]
    if about.get("apiVersion") and about["apiVersion"] != api_version:
        yield FieldError.not_supported("spec.about.apiVersion", about["apiVersion"], (api_version,))
    named = about.get("namespace")
    if named and not namespaced:
        yield FieldError.forbidden("spec.about.namespace", f"{about['kind']} is cluster-wide")
    elif named and named != metadata.get("namespace"):
        own = metadata.get("namespace")
        yield FieldError.forbidden("spec.about.namespace", f"must be {own!r}, the namespace of the Question")


@cache
def _asked_about() -> Mapping[str, tuple[str, bool]]:
    clusters = (one.cluster for one in applications() if one.cluster is not None)
    return {noun.kind: (noun.api_version, noun.namespaced) for noun in (*_WATCHED, *clusters)}


_WATCHED: Final = (
    AutopilotRule, PersistentVolumeClaim, Pod, StatefulSet, Deployment, StoragePool, Node
)  # fmt: skip


def check_storage_pool(new: Mapping[str, Any], old: Mapping[str, Any] | None) -> Iterator[FieldError]:
    """What is asked of a pool is a quantity of bytes."""
    asked = (new.get("spec") or {}).get("capacity")
    if not asked:
        return
    try:
        if parse_quantity(asked).to_int() <= 0:
            yield FieldError.invalid("spec.capacity", asked, "must be greater than zero")
    except QuantityError as problem:
        yield FieldError.invalid("spec.capacity", asked, str(problem))


_V1ALPHA1: Final = GroupVersion(v1alpha1.GROUP, v1alpha1.VERSION, v1alpha1.PACKAGE)

DECISION: Final = _V1ALPHA1.kind(
    v1alpha1.Decision,
    categories=(),
    status=False,
    columns=(
        path_column("Controller", ".controller", "Who decided."),
        path_column("Kind", ".object.kind", "The kind of what it is about."),
        path_column("Object", ".object.name", "What it is about."),
        path_column("Outcome", ".outcome", "How it stands."),
        path_column("Waiting For", ".waiting.message", "What is waited for."),
        path_column("Changed", ".time", "When the decision last changed.", type="date"),
        path_column("Summary", ".summary", "All of it in a sentence.", wide=True),
    ),
    selectable={
        path: f".{path}" for path in ("controller", "object.kind", "object.name", "object.uid", "outcome")
    },
    validate=check_decision,
)
QUESTION: Final = _V1ALPHA1.kind(
    v1alpha1.Question,
    categories=(),
    columns=(
        path_column("What", ".spec.what", "What is asked."),
        path_column("Kind", ".spec.about.kind", "The kind of what it is about."),
        path_column("About", ".spec.about.name", "What it is about."),
        path_column("Answered", ".status.time", "When it was answered.", type="date"),
        AGE,
    ),
    validate=check_question,
)
STORAGE_POOL: Final = _V1ALPHA1.kind(
    v1alpha1.StoragePool,
    namespaced=False,
    columns=(
        path_column("Node", ".status.node", "The node."),
        path_column("Tier", ".status.tier", "The tier of the node."),
        path_column("Medium", ".status.medium", "What it is made of."),
        path_column("Capacity", ".status.capacity", "How much it holds."),
        path_column("Provisioned", ".status.provisioned", "The sizes of its volumes, added up."),
        path_column("Used", ".status.used", "How much is used."),
        AGE,
        path_column("Device", ".status.device", "The block device below it.", wide=True),
        condition_column("Expanded", "Expanded", "Whether it has grown as asked.", field="reason", wide=True),
    ),
    validate=check_storage_pool,
)


def resources() -> tuple[Resource, ...]:
    return single(DECISION), single(QUESTION), single(STORAGE_POOL)
