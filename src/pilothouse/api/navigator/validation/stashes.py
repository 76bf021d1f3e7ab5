"""Validation of the annotations that carry what one version can't express of the other.

In ``v1alpha1`` the annotation of ``navigator.conversion`` is allowed and must make a valid ``v1beta1``
object, or it would bypass that version's rules; in ``v1beta1`` it is not allowed, since it would be read back
as fields. For ``navigator.deprecated_fields`` it is the other way round.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

import msgspec

from pilothouse.api.navigator.conversion import LARGEST_STASH, STASH, convert, read_stash, stash_of
from pilothouse.api.navigator.deprecated_fields import ANNOTATION, canonical
from pilothouse.api.navigator.v1alpha1 import VERSION as V1ALPHA1
from pilothouse.api.navigator.v1beta1 import VERSION as V1BETA1
from pilothouse.api.navigator.validation.clusters import Problems
from pilothouse.meta.fields import FieldError, entry
from pilothouse.meta.kind import Kind, Object

_PATH: Final = entry("metadata.annotations", STASH)
_OBSOLETE: Final = entry("metadata.annotations", ANNOTATION)
Validator = Callable[[Object, Object | None], Iterable[FieldError]]


def check_stash(new: Object, old: Object | None, hub: Kind, reported: Iterable[FieldError]) -> Problems:
    """Problems of a ``v1alpha1`` object's annotation, each at its ``v1beta1`` field.

    Not included: problems already ``reported``, problems that exist without the annotation, and those of the
    stored object.
    """
    annotations = new["metadata"].get("annotations") or {}
    if ANNOTATION in annotations:
        yield FieldError.forbidden(_OBSOLETE, f"belongs to {V1BETA1} alone; set the fields themselves")
        return
    text = annotations.get(STASH)
    if text is None:
        return
    try:
        read_stash(text)
    except ValueError as error:
        yield FieldError.invalid(
            _PATH, text, f"{error}; the server writes this annotation, leave it as it was"
        )
        return
    problems = _problems(new, hub)
    if not problems:
        return
    others = {name: value for name, value in annotations.items() if name != STASH}
    bare = {**new, "metadata": {**new["metadata"], "annotations": others}}
    known = {problem.path for problem in reported}
    before = _problems(old, hub) if old is not None else ()
    excused = {(each.path, each.reason, each.detail) for each in (*_problems(bare, hub), *before)}
    for problem in problems:
        if problem.path not in known and (problem.path, problem.reason, problem.detail) not in excused:
            yield FieldError.invalid(_PATH, text, f"in {V1BETA1}, {problem}")


def _problems(new: Object, hub: Kind) -> list[FieldError]:
    """The problems of a ``v1alpha1`` object after conversion to the hub."""
    whole: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(convert(new, V1ALPHA1, V1BETA1)))
    problems = [FieldError.invalid(path, None, "unknown field") for path in hub.shape.prune(whole)]
    return problems or hub.shape.validate(whole) or list(hub.validate(whole, None))


def check_no_stash(new: Object) -> Problems:
    """Problems of a ``v1beta1`` object on its way to ``v1alpha1``."""
    annotations = new["metadata"].get("annotations") or {}
    obsolete = annotations.get(ANNOTATION)
    if obsolete is not None and obsolete != canonical(obsolete, new):
        yield FieldError.invalid(
            _OBSOLETE, obsolete, "does not fit the object; the server writes this annotation, leave it out"
        )
    if STASH in annotations:
        yield FieldError.forbidden(_PATH, f"belongs to {V1ALPHA1} alone; set the fields themselves")
    elif len(msgspec.json.encode(new)) > LARGEST_STASH and len(stash_of(new)) > LARGEST_STASH:
        yield FieldError.too_long("spec", LARGEST_STASH)
