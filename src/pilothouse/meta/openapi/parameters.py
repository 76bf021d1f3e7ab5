"""The query and path parameters of Kubernetes' verbs, as OpenAPI."""

from __future__ import annotations

from typing import Any, Final

Json = dict[str, Any]


def _query(name: str, kind: str, description: str, values: tuple[str, ...] = ()) -> Json:
    schema: Json = {"type": kind}
    if values:
        schema["enum"] = list(values)
    return {"name": name, "in": "query", "description": description, "schema": schema}


def _path(name: str, description: str) -> Json:
    return {
        "name": name,
        "in": "path",
        "required": True,
        "description": description,
        "schema": {"type": "string", "minLength": 1},
    }


NAME: Final = _path("name", "The name of the object.")
NAMESPACE: Final = _path("namespace", "The namespace of the object.")
PRETTY: Final = _query("pretty", "string", "If true, the answer is indented.")

_DRY_RUN: Final = _query("dryRun", "string", "All: go through every step but store nothing.", ("All",))
_MANAGER: Final = _query("fieldManager", "string", "Who makes the change, for the record of managed fields.")
_VALIDATION: Final = _query(
    "fieldValidation",
    "string",
    "What to do about unknown and repeated fields: refuse (Strict), warn (Warn, "
    "the default) or drop them (Ignore).",
    ("Ignore", "Warn", "Strict"),
)

WRITE_QUERY: Final = (_DRY_RUN, _MANAGER, _VALIDATION)
PATCH_QUERY: Final = (
    *WRITE_QUERY,
    _query("force", "boolean", "With apply: take over fields that other managers own."),
)
_RESOURCE_VERSION: Final = (
    _query("resourceVersion", "string", "The state that the answer must show, or start from."),
    _query(
        "resourceVersionMatch",
        "string",
        "How resourceVersion binds a list.",
        ("NotOlderThan", "Exact"),
    ),
)
LIST_QUERY: Final = (
    _query("labelSelector", "string", "Only objects whose labels match."),
    _query("fieldSelector", "string", "Only objects whose fields match."),
    *_RESOURCE_VERSION,
    _query("limit", "integer", "At most this many objects; the answer says how to go on."),
    _query("continue", "string", "Go on after an earlier page."),
    _query("watch", "boolean", "Answer with a stream of changes."),
    _query(
        "allowWatchBookmarks", "boolean", "Send bookmark events, which report the current resource version."
    ),
    _query("sendInitialEvents", "boolean", "Begin the stream with the objects that exist."),
    _query("timeoutSeconds", "integer", "End the list or stream after this time."),
)
DELETE_QUERY: Final = (
    _DRY_RUN,
    _query("gracePeriodSeconds", "integer", "How long the object may take to terminate; 0 for at once."),
    _query(
        "propagationPolicy",
        "string",
        "What happens to objects that it owns.",
        ("Orphan", "Background", "Foreground"),
    ),
    _query("orphanDependents", "boolean", "Superseded by propagationPolicy."),
)
