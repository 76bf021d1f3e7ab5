"""Validation of plans and update configs beyond their schemas.

Refused are mistakes that would make a plan wait forever, select every machine or none, or fail on the
machines.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import msgspec

from pilothouse.api.k0s.cron import problem_with
from pilothouse.api.k0s.rollout import Window
from pilothouse.api.k0s.update_windows import LONGEST
from pilothouse.base.duration import parse_duration
from pilothouse.meta import names
from pilothouse.meta.cel.expressions import CelError, compile_rule
from pilothouse.meta.fields import FieldError, child, element
from pilothouse.meta.int_or_percent import scaled
from pilothouse.meta.schema.model import ANY
from pilothouse.meta.selectors import FieldSelector, LabelSelector, SelectorError

_PLATFORM: Final = re.compile(r"[a-z0-9]+-[a-z0-9_]+")
_SHA256: Final = re.compile(r"[0-9a-fA-F]{64}")
_VERSION: Final = re.compile(r"[0-9A-Za-z][0-9A-Za-z.+_~-]*")
_CHANNEL: Final = re.compile(r"[0-9A-Za-z][0-9A-Za-z._-]*(/[0-9A-Za-z][0-9A-Za-z._-]*)*")
_TIME: Final = re.compile(r"([01][0-9]|2[0-3]):[0-5][0-9]")
_CREDENTIALS: Final = re.compile(r"[^/?#]*//[^/?#]*@")
_IGNORED_IN_URLS: Final = dict.fromkeys(map(ord, "\t\r\n"))

Problems = Iterator[FieldError]

_LARGEST: Final = 3 * 512 * 1024
"""Bytes of an object that etcd stores unless it is set otherwise: the smallest limit of all stores."""
_TARGET: Final = 224
"""Bytes of a finished target in the status, without its name."""
_REST: Final = 96 * 1024
"""Bytes for everything else: metadata, conditions, the history, and why targets have failed."""


def check_plan(new: Mapping[str, Any], old: Mapping[str, Any] | None) -> Problems:
    for index, command in enumerate(new["spec"]["commands"]):
        path = f"spec.commands[{index}]"
        yield from _check_some_command(command, path)
        if (update := command.get("k0supdate")) is not None:
            where = child(path, "k0supdate")
            yield from _check_payload(update, where)
            yield from _check_targets(update["targets"], child(where, "targets"))
        if (update := command.get("airgapupdate")) is not None:
            where = child(path, "airgapupdate")
            yield from _check_payload(update, where)
            if (workers := update.get("workers")) is not None:
                yield from _check_target(workers, child(where, "workers"))
    yield from _check_number_of_names(new["spec"])
    if (rollout := new["spec"].get("rollout")) is not None:
        yield from _check_rollout(rollout, "spec.rollout")


def check_update_config(new: Mapping[str, Any], old: Mapping[str, Any] | None) -> Problems:
    spec = new["spec"]
    if not _CHANNEL.fullmatch(spec["channel"]):
        yield FieldError.invalid(
            "spec.channel", spec["channel"], "must be the name of a channel, such as stable or stable/v1.32"
        )
    yield from check_url(spec["updateServer"], "spec.updateServer")
    yield from _check_strategy(spec["upgradeStrategy"], "spec.upgradeStrategy")
    for index, command in enumerate((spec.get("planSpec") or {}).get("commands", ())):
        path = f"spec.planSpec.commands[{index}]"
        yield from _check_some_command(command, path)
        targets = (command.get("k0supdate") or {}).get("targets") or {}
        yield from _check_targets(targets, child(path, "k0supdate.targets"))
        if workers := (command.get("airgapupdate") or {}).get("workers"):
            yield from _check_target(workers, child(path, "airgapupdate.workers"))
    if (rollout := (spec.get("planSpec") or {}).get("rollout")) is not None:
        yield from _check_rollout(rollout, "spec.planSpec.rollout")


def too_many_targets(spec: Any, names: Sequence[str]) -> str:
    """Why a plan with these targets could not be stored when all of them are finished; empty if it could."""
    return _too_large(_spec_size(spec), len(names), sum(map(len, names)))


def _spec_size(spec: Any) -> int:
    """Bytes of a spec, which is in the status of its run once more."""
    return 2 * len(msgspec.json.encode(spec))


def _too_large(spec_size: int, targets: int, name_bytes: int) -> str:
    size = spec_size + targets * _TARGET + name_bytes + _REST
    if not targets or size <= _LARGEST:
        return ""
    return (
        f"{targets} targets are too many: with all of them finished the plan would have "
        f"{size / 2**20:.2f} MiB, and {_LARGEST / 2**20} MiB can be stored; select fewer"
    )


def _check_number_of_names(spec: Mapping[str, Any]) -> Problems:
    spec_size, total, name_bytes = _spec_size(spec), 0, 0
    for index, command in enumerate(spec["commands"]):
        update, bundle = command.get("k0supdate") or {}, command.get("airgapupdate") or {}
        targets = update.get("targets") or {}
        for target in (bundle.get("workers"), targets.get("controllers"), targets.get("workers")):
            discovery = (target or {}).get("discovery") or {}
            found = set((discovery.get("static") or {}).get("nodes", ()))
            total += len(found)
            name_bytes += sum(map(len, found))
        if problem := _too_large(spec_size, total, name_bytes):
            yield FieldError.invalid(f"spec.commands[{index}]", total, problem)
            return


def _check_rollout(rollout: Mapping[str, Any], path: str) -> Problems:
    yield from _check_period(rollout["nodeDeadline"], child(path, "nodeDeadline"))
    for name in ("planDeadline", "soak"):
        if rollout.get(name):
            yield from _check_period(rollout[name], child(path, name), zero=name == "soak")
    if (limit := rollout.get("maxUnavailable")) is not None:
        yield from _check_count(limit, child(path, "maxUnavailable"))
    for index, wave in enumerate(rollout.get("waves", ())):
        where = element(child(path, "waves"), index)
        yield from _check_selector(wave["selector"], child(where, "selector"))
    for index, window in enumerate(rollout.get("windows", ())):
        yield from _check_window(window, element(child(path, "windows"), index))
    for name in ("timeout", "forceAfter"):
        if text := (rollout.get("drain") or {}).get(name):
            yield from _check_period(text, child(path, f"drain.{name}"), zero=name == "forceAfter")
    for index, gate in enumerate(rollout.get("gates", ())):
        yield from _check_gate(gate, element(child(path, "gates"), index))


def _check_gate(gate: Mapping[str, Any], path: str) -> Problems:
    try:
        expression = compile_rule(gate["expression"], ANY)
    except CelError as error:
        yield FieldError.invalid(child(path, "expression"), gate["expression"], str(error))
    else:
        if expression.uses_old:
            problem = "there is no oldSelf: the expression is about an object as it is"
            yield FieldError.invalid(child(path, "expression"), gate["expression"], problem)
    if gate.get("objectName") and gate.get("labels"):
        yield FieldError.forbidden(child(path, "labels"), "objectName names one object already")
    if labels := gate.get("labels"):
        yield from _check_label_selector(labels, child(path, "labels"))
    if gate.get("namespace") and (problem := names.label(gate["namespace"])):
        yield FieldError.invalid(child(path, "namespace"), gate["namespace"], problem)


def _check_period(text: str, path: str, *, zero: bool = False) -> Problems:
    """A duration, longer than 0 unless that is sensible."""
    try:
        seconds = parse_duration(text)
    except ValueError as error:
        yield FieldError.invalid(path, text, str(error))
        return
    if seconds < 0 or (seconds == 0 and not zero):
        yield FieldError.invalid(path, text, "must not be negative" if zero else "must be greater than 0")


def check_url(url: str, path: str) -> Problems:
    """A URL that something can be fetched from, without a secret in it."""
    if _CREDENTIALS.match(url.translate(_IGNORED_IN_URLS)):
        yield FieldError.forbidden(
            path, "must not have a user or password in it: status and annotations would show them"
        )
        return
    problem = ""
    try:
        parts = urlsplit(url)
        parts.port  # noqa: B018 - looked at because that is where a bad port is found out
    except ValueError as error:
        problem = str(error)
    else:
        if parts.scheme not in ("http", "https"):
            problem = "the scheme must be http or https"
        elif not parts.hostname:
            problem = "it has no host"
        elif re.search(r"[\s{}<>\"\\^`|]", url):
            problem = "it has characters that a URL can't have; is a placeholder left?"
    if problem:
        yield FieldError.invalid(path, url, f"must be a URL such as https://host/path: {problem}")


def _check_some_command(command: Mapping[str, Any], path: str) -> Problems:
    if "k0supdate" not in command and "airgapupdate" not in command:
        yield FieldError.required(path, "needs at least one of k0supdate and airgapupdate")


def _check_payload(update: Mapping[str, Any], path: str) -> Problems:
    version = update["version"]
    if not _VERSION.fullmatch(version):
        yield FieldError.invalid(
            child(path, "version"),
            version,
            "must be a version, such as v1.32.4+k0s.0; is a placeholder left?"
            if version
            else "must not be empty",
        )
    for platform, resource in update["platforms"].items():
        where = child(child(path, "platforms"), platform)
        if not _PLATFORM.fullmatch(platform):
            yield FieldError.invalid(
                where, platform, "must be operating system and architecture, such as linux-amd64"
            )
        yield from check_url(resource["url"], child(where, "url"))
        sha256 = resource.get("sha256")
        if sha256 is not None and not _SHA256.fullmatch(sha256):
            yield FieldError.invalid(
                child(where, "sha256"), sha256, f"must be 64 hexadecimal digits, has {len(sha256)} characters"
            )


def _check_targets(targets: Mapping[str, Any], path: str) -> Problems:
    for group in ("controllers", "workers"):
        if (target := targets.get(group)) is not None:
            yield from _check_target(target, child(path, group))


def _check_target(target: Mapping[str, Any], path: str) -> Problems:
    yield from _check_discovery(target["discovery"], child(path, "discovery"))
    yield from _check_count(target["limits"]["concurrent"], child(path, "limits.concurrent"))


def _check_count(value: int | str, path: str) -> Problems:
    """A number of machines, or a percentage of them: at least 1."""
    try:
        share = scaled(value, 100, up=True)
    except ValueError as error:
        yield FieldError.invalid(path, value, str(error))
        return
    if share < 1 or (isinstance(value, str) and share > 100):
        yield FieldError.invalid(path, value, "must be a number from 1 on, or from 1% to 100%")


def _check_discovery(discovery: Mapping[str, Any], path: str) -> Problems:
    for index, name in enumerate((discovery.get("static") or {}).get("nodes", ())):
        if problem := names.subdomain(name):
            yield FieldError.invalid(element(child(path, "static.nodes"), index), name, problem)
    yield from _check_selector(discovery.get("selector") or {}, child(path, "selector"))


def _check_selector(selector: Mapping[str, Any], path: str) -> Problems:
    if labels := selector.get("labels"):
        yield from _check_label_selector(labels, child(path, "labels"))
    if fields := selector.get("fields"):
        yield from _check_field_selector(fields, child(path, "fields"))


def _check_label_selector(text: str, path: str) -> Problems:
    try:
        LabelSelector.parse(text)
    except SelectorError as error:
        yield FieldError.invalid(path, text, str(error))


def _check_field_selector(text: str, path: str) -> Problems:
    try:
        selector = FieldSelector.parse(text)
    except SelectorError as error:
        yield FieldError.invalid(path, text, str(error))
        return
    for requirement in selector.requirements:
        if requirement.field != "metadata.name":
            yield FieldError.invalid(
                path,
                text,
                f"there is no field {requirement.field} to select by; only metadata.name is supported",
            )


def _check_strategy(strategy: Mapping[str, Any], path: str) -> Problems:
    kind, periodic, cron = strategy["type"], strategy.get("periodic"), strategy.get("cron")
    if isinstance(cron, Mapping):
        if periodic is not None:
            yield FieldError.forbidden(child(path, "periodic"), "there is a window in cron already")
        yield from _check_window_in_cron(cron, child(path, "cron"))
    elif cron is not None and not isinstance(cron, str):
        yield FieldError.invalid(child(path, "cron"), cron, "must be a schedule, or a window as in periodic")
    elif kind == "periodic":
        if cron:
            yield FieldError.forbidden(child(path, "cron"), "the type is periodic, so this would be ignored")
        if periodic is None:
            yield FieldError.required(child(path, "periodic"), "the window in which updates may start")
            return
        yield from _check_window(periodic, child(path, "periodic"))
    else:
        if periodic is not None:
            yield FieldError.forbidden(child(path, "periodic"), "the type is cron, so this would be ignored")
        if cron and (problem := problem_with(cron)):
            yield FieldError.invalid(child(path, "cron"), cron, problem)


def _check_window_in_cron(window: Mapping[str, Any], path: str) -> Problems:
    """The schema of this field allows any value, so all of the window is checked here."""
    known = {one.encode_name for one in msgspec.structs.fields(Window)}
    for name in sorted(set(window) - known):
        yield FieldError.invalid(
            child(path, name), name, f"unknown field; a window has {', '.join(sorted(known))}"
        )
    try:
        msgspec.convert(window, Window)
    except msgspec.ValidationError as error:
        yield FieldError.invalid(path, dict(window), str(error))
        return
    yield from _check_window(window, path)


def _check_window(window: Mapping[str, Any], path: str) -> Problems:
    if not _TIME.fullmatch(window["startTime"]):
        yield FieldError.invalid(
            child(path, "startTime"), window["startTime"], 'must be a time of day from "00:00" to "23:59"'
        )
    yield from _check_time_zone(window.get("timeZone") or "UTC", child(path, "timeZone"))
    try:
        seconds = parse_duration(window["length"])
    except ValueError as error:
        yield FieldError.invalid(child(path, "length"), window["length"], str(error))
        return
    if seconds <= 0:
        yield FieldError.invalid(child(path, "length"), window["length"], "must be greater than 0")
    elif seconds > LONGEST:
        yield FieldError.invalid(
            child(path, "length"), window["length"], "must not exceed 168h, which is 7 days"
        )


def _check_time_zone(name: str, path: str) -> Problems:
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        yield FieldError.invalid(path, name, "must be the name of a time zone, such as Europe/Berlin or UTC")
