"""Metadata that the server sets on create, update and delete. Pure functions that change objects in place."""

from __future__ import annotations

from typing import Any

from pilothouse.apiserver.endpoints.write_options import BACKGROUND, FOREGROUND, ORPHAN, ParsedDeleteOptions
from pilothouse.apiserver.registry.strategy import STANDARD, Strategy
from pilothouse.apiserver.storage.objects import REMOVE, Change
from pilothouse.base.rfc3339 import format_time
from pilothouse.meta import errors, names
from pilothouse.meta.fields import FieldError
from pilothouse.meta.kind import Kind, Object

FOREGROUND_FINALIZER = "foregroundDeletion"
ORPHAN_FINALIZER = "orphan"
_LONGEST_NAME = 1024
_SERVER_SIDE = (
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "generation",
    "selfLink",
)


def begin(kind: Kind, obj: Object, *, namespace: str, uid: str, now: float) -> None:
    """Prepare an object for its creation: the server's metadata, no status that has its own endpoint."""
    metadata = obj["metadata"]
    if metadata.pop("resourceVersion", ""):
        raise errors.bad_request("resourceVersion should not be set on objects to be created")
    for field in _SERVER_SIDE:
        metadata.pop(field, None)
    place(kind, metadata, namespace)
    metadata["uid"] = uid
    metadata["creationTimestamp"] = format_time(now)
    if kind.generation:
        metadata["generation"] = 1
    if kind.status and not kind.born_with_status:
        obj.pop("status", None)
    kind.prepare_create(obj)


def place(kind: Kind, metadata: dict[str, Any], namespace: str) -> None:
    """Set the namespace of the request; 400 if the object names another."""
    if not kind.namespaced:
        metadata.pop("namespace", None)
        return
    if metadata.get("namespace") not in (None, "", namespace):
        raise errors.bad_request(
            "the namespace of the provided object does not match the namespace sent on the request"
        )
    metadata["namespace"] = namespace


def check_name(metadata: dict[str, Any], name: str) -> None:
    """400 if an object's name is not the one in the URL."""
    given = metadata.get("name") or ""
    if given and given != name:
        raise errors.bad_request(
            f"the name of the object ({given}) does not match the name on the URL ({name})"
        )
    if not given:
        raise errors.bad_request(f"the name of the object must be set to {name}, the name on the URL")


def check_segment(new: Object) -> list[FieldError]:
    """Problems with a name in a URL, whatever the kind allows: the object could not be addressed."""
    name = new["metadata"].get("name") or ""
    problem = names.path_segment(name)
    if not (problem or name.isprintable()) and any(
        character < " " or character == "\x7f" for character in name
    ):
        problem = "may not contain control characters"
    if not problem and len(name.encode()) > _LONGEST_NAME:
        problem = f"must be no more than {_LONGEST_NAME} bytes"
    return [FieldError.invalid("metadata.name", name, problem)] if problem else []


def check_preconditions(kind: Kind, live: Object, *, uid: str, revision: str) -> None:
    """409 if the live object has another uid or revision than the client expects."""
    metadata = live["metadata"]
    if uid and uid != metadata["uid"]:
        detail = f"Precondition failed: UID in precondition: {uid}, UID in object meta: {metadata['uid']}"
        raise errors.conflict(kind.plural, kind.group, metadata["name"], detail)
    if revision and revision != metadata["resourceVersion"]:
        raise errors.conflict(kind.plural, kind.group, metadata["name"], errors.MODIFIED)


def carry(kind: Kind, new: Object, live: Object) -> None:
    """Prepare an object for an update: what a client can't set is copied from the live one."""
    metadata, before = new["metadata"], live["metadata"]
    for field in _SERVER_SIDE:
        if field in before:
            metadata[field] = before[field]
        else:
            metadata.pop(field, None)
    metadata["name"] = before["name"]
    metadata["resourceVersion"] = before["resourceVersion"]
    if kind.namespaced:
        metadata["namespace"] = before["namespace"]
    if kind.status:
        _copy(new, live, "status")
    kind.prepare_update(new, live)


def carry_status(kind: Kind, new: Object, live: Object) -> Object:
    """The live object with the status, the managed fields and the ``status_metadata`` of the one sent."""
    result = {**live, "metadata": dict(live["metadata"])}
    _copy(result, new, "status")
    for field in kind.status_metadata:
        _copy(result["metadata"], new["metadata"], field)
    _copy(result["metadata"], new["metadata"], "managedFields")
    return result


def advance(kind: Kind, new: Object, live: Object) -> None:
    """Increment the generation when anything but metadata (and a separate status) has changed."""
    if kind.generation and _content(kind, new) != _content(kind, live):
        new["metadata"]["generation"] = live["metadata"].get("generation", 0) + 1


def check_finalizers(new: Object, live: Object) -> list[FieldError]:
    """Problems with finalizers that are added to a terminating object."""
    if "deletionTimestamp" not in live["metadata"]:
        return []
    added = sorted(
        set(new["metadata"].get("finalizers") or ()) - set(live["metadata"].get("finalizers") or ())
    )
    if not added:
        return []
    detail = f"no new finalizers can be added if the object is being deleted, found new finalizers {added}"
    return [FieldError.forbidden("metadata.finalizers", detail)]


def ends(kind: Kind, new: Object, live: Object) -> bool:
    """Whether nothing holds a terminating object after a change."""
    before = live["metadata"]
    if new["metadata"].get("finalizers") or "deletionTimestamp" not in before:
        return False
    return not before.get("deletionGracePeriodSeconds") and not kind.held(new)


def refusal_to_go(kind: Kind, live: Object) -> str:
    """Why an object may not be deleted; empty if it may, or is terminating, which can't be revoked."""
    return "" if "deletionTimestamp" in live["metadata"] else kind.protected(live)


def deletion(kind: Kind, options: ParsedDeleteOptions, now: float, strategy: Strategy = STANDARD) -> Change:
    """The change that a delete makes: the object is removed, or marked as terminating."""

    def change(live: Object) -> Any:
        check_preconditions(kind, live, uid=options.uid, revision=options.revision)
        metadata = dict(live["metadata"])
        if why := refusal_to_go(kind, live):
            raise errors.forbidden(kind.plural, kind.group, metadata["name"], why)
        finalizers = _finalizers(metadata.get("finalizers") or [], options)
        grace = kind.grace(live, options.grace)
        if not finalizers and not grace and not kind.held(live):
            return REMOVE
        terminating = "deletionTimestamp" in metadata
        if terminating and grace >= metadata.get("deletionGracePeriodSeconds", 0):
            if set(finalizers) == set(metadata.get("finalizers") or []):
                return live
        else:
            metadata["deletionTimestamp"] = format_time(now + grace)
            metadata["deletionGracePeriodSeconds"] = grace
        if not terminating and kind.generation:
            metadata["generation"] = metadata.get("generation", 0) + 1
        metadata.pop("finalizers", None)
        if finalizers:
            metadata["finalizers"] = finalizers
        marked = {**live, "metadata": metadata}
        kind.prepare_delete(marked)
        strategy.prepare_delete(marked)
        return marked

    return change


def _finalizers(current: list[str], options: ParsedDeleteOptions) -> list[str]:
    """The finalizers after a deletion policy is applied; without a policy they stay as they are."""
    policy = options.propagation
    if not policy and options.orphan_dependents is not None:
        policy = ORPHAN if options.orphan_dependents else BACKGROUND
    if not policy:
        return list(current)
    kept = [each for each in current if each not in (FOREGROUND_FINALIZER, ORPHAN_FINALIZER)]
    if policy == FOREGROUND:
        kept.append(FOREGROUND_FINALIZER)
    elif policy == ORPHAN:
        kept.append(ORPHAN_FINALIZER)
    return kept


def _content(kind: Kind, obj: Object) -> Object:
    left_out = {"metadata", "apiVersion", "kind"} | ({"status"} if kind.status else set())
    return {field: value for field, value in obj.items() if field not in left_out}


def _copy(target: dict[str, Any], source: dict[str, Any], field: str) -> None:
    if field in source:
        target[field] = source[field]
    else:
        target.pop(field, None)
