"""The options of writes, from query parameters and option objects; a wrong one is refused with its path."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from pilothouse.apiserver.endpoints import decoding
from pilothouse.apiserver.server.messages import Request, is_true
from pilothouse.meta import errors
from pilothouse.meta.fields import FieldError

STRICT, WARN, IGNORE = "Strict", "Warn", "Ignore"
BACKGROUND, FOREGROUND, ORPHAN = "Background", "Foreground", "Orphan"
_MANAGER_LIMIT = 128
_LONGEST_GRACE = 2**31 - 1
_NUMBER = re.compile(r"[-+]?[0-9]{1,20}")


class WriteOptions(msgspec.Struct, frozen=True):
    manager: str
    dry_run: bool = False
    validation: str = WARN
    force: bool = False


class ParsedDeleteOptions(msgspec.Struct, frozen=True):
    dry_run: bool = False
    grace: int | None = None
    propagation: str = ""
    orphan_dependents: bool | None = None
    uid: str = ""
    revision: str = ""


def write_options(
    request: Request, params: Mapping[str, str], kind: str, *, apply: bool = False
) -> WriteOptions:
    """Options of a write; ``kind`` names them in errors (``CreateOptions``)."""
    if not params and not apply:
        return WriteOptions(default_manager(request.headers.get("User-Agent", "")))
    problems: list[FieldError] = []
    dry_run = params.get("dryRun", "")
    if dry_run not in ("", "All"):
        problems.append(FieldError.not_supported("dryRun", dry_run, ["All"]))
    manager = params.get("fieldManager", "")
    if len(manager.encode()) > _MANAGER_LIMIT:
        problems.append(FieldError.too_long("fieldManager", _MANAGER_LIMIT))
    if not manager.isprintable():
        problems.append(
            FieldError.invalid("fieldManager", manager, "should only contain printable characters")
        )
    if apply and not manager:
        problems.append(FieldError.required("fieldManager", "is required for apply patch"))
    validation = params.get("fieldValidation", "") or WARN
    if validation not in (STRICT, WARN, IGNORE):
        problems.append(FieldError.not_supported("fieldValidation", validation, ["", IGNORE, STRICT, WARN]))
    if "force" in params and not apply:
        problems.append(FieldError.forbidden("force", "may not be specified for non-apply patch"))
    if problems:
        raise errors.invalid(kind, "meta.k8s.io", "", problems)
    return WriteOptions(
        manager=manager or default_manager(request.headers.get("User-Agent", "")),
        dry_run=bool(dry_run),
        validation=validation,
        force=is_true(params.get("force")),
    )


def default_manager(user_agent: str) -> str:
    """The field manager of a write that names none: the client's program."""
    name = user_agent.partition("/")[0]
    if not name.isprintable():
        name = "".join(each for each in name if each.isprintable())
    return name.encode()[:_MANAGER_LIMIT].decode(errors="ignore") or "unknown"


def delete_options(request: Request, params: Mapping[str, str]) -> ParsedDeleteOptions:
    """Options of a delete, from the body and, where it lacks them, from the query."""
    given: dict[str, Any] = {}
    if request.body.strip():
        value = decoding.read(request, native=True).value
        if not isinstance(value, dict):
            raise errors.bad_request("DeleteOptions must be an object")
        if value.get("kind", "DeleteOptions") != "DeleteOptions":
            raise errors.bad_request(f"the body of a delete must be DeleteOptions, not {value['kind']!r}")
        given = value
    return delete_options_of(given, params)


def delete_options_of(given: Mapping[str, Any], params: Mapping[str, str]) -> ParsedDeleteOptions:
    """Options of a delete that were sent as an object, completed by the query; 422 with every problem."""
    problems: list[FieldError] = []
    dry_run = given.get("dryRun") or ([params["dryRun"]] if params.get("dryRun") else [])
    if not isinstance(dry_run, list) or any(each != "All" for each in dry_run):
        problems.append(FieldError.not_supported("dryRun", dry_run, ["All"]))
    grace = _integer(
        given.get("gracePeriodSeconds", params.get("gracePeriodSeconds")), "gracePeriodSeconds", problems
    )
    propagation = given.get("propagationPolicy") or params.get("propagationPolicy") or ""
    if propagation not in ("", BACKGROUND, FOREGROUND, ORPHAN):
        allowed = [BACKGROUND, FOREGROUND, ORPHAN]
        problems.append(FieldError.not_supported("propagationPolicy", propagation, allowed))
    orphan = given.get("orphanDependents")
    if orphan is None and "orphanDependents" in params:
        orphan = is_true(params["orphanDependents"])
    if orphan is not None and not isinstance(orphan, bool):
        problems.append(FieldError.type_invalid("orphanDependents", orphan, "must be true or false"))
    if orphan is not None and propagation:
        detail = "orphanDependents and deletionPropagation cannot be both set"
        problems.append(FieldError.invalid("propagationPolicy", propagation, detail))
    preconditions = given.get("preconditions") or {}
    if not isinstance(preconditions, dict):
        problems.append(FieldError.type_invalid("preconditions", preconditions, "must be an object"))
        preconditions = {}
    for field, value in preconditions.items():
        if field in ("uid", "resourceVersion") and not isinstance(value, str | None):
            problems.append(FieldError.type_invalid(f"preconditions.{field}", value, "must be a string"))
    if problems:
        raise errors.invalid("DeleteOptions", "meta.k8s.io", "", problems)
    return ParsedDeleteOptions(
        dry_run=bool(dry_run),
        grace=grace,
        propagation=propagation,
        orphan_dependents=orphan,
        uid=preconditions.get("uid") or "",
        revision=preconditions.get("resourceVersion") or "",
    )


def _integer(value: Any, path: str, problems: list[FieldError]) -> int | None:
    if value is None or value == "":
        return None
    given = value
    if isinstance(value, str) and _NUMBER.fullmatch(value):
        given = int(value)
    if isinstance(given, bool) or not isinstance(given, int):
        problems.append(FieldError.type_invalid(path, value, "must be an integer"))
        return None
    if not 0 <= given <= _LONGEST_GRACE:
        problems.append(FieldError.invalid(path, value, f"must be between 0 and {_LONGEST_GRACE}, inclusive"))
    return given
