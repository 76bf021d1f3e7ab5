"""The containers of a pod, one by one and as a group."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any, Final

from pilothouse.api.kubernetes.pods.probes import check_handler, check_probe
from pilothouse.api.kubernetes.pods.volumes import check_resource_field
from pilothouse.api.kubernetes.shared_checks import (
    Problems,
    amount,
    descending_path,
    dns_label,
    port,
    port_name,
    without_nul,
)
from pilothouse.meta.fields import FieldError, element, entry

Container = Mapping[str, Any]

_ENV_FIELDS: Final = (
    "metadata.name", "metadata.namespace", "metadata.uid", "spec.nodeName", "spec.serviceAccountName",
    "status.hostIP", "status.hostIPs", "status.podIP", "status.podIPs",
)  # fmt: skip
_SUBSCRIPT: Final = re.compile(r"metadata\.(labels|annotations)\['.+'\]").fullmatch
_SOURCES: Final = ("fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef")
_RELAXED_ENV: Final = re.compile(r"[ -<>-~]+").fullmatch
_SIDECARS_ONLY: Final = "may not be set for init containers without restartPolicy=Always"
_SIGNALS: Final = (
    "SIGABRT", "SIGALRM", "SIGBUS", "SIGCHLD", "SIGCLD", "SIGCONT", "SIGFPE", "SIGHUP", "SIGILL",
    "SIGINT", "SIGIO", "SIGIOT", "SIGKILL", "SIGPIPE", "SIGPOLL", "SIGPROF", "SIGPWR", "SIGQUIT",
    "SIGRTMAX", "SIGRTMIN", "SIGSEGV", "SIGSTKFLT", "SIGSTOP", "SIGSYS", "SIGTERM", "SIGTRAP",
    "SIGTSTP", "SIGTTIN", "SIGTTOU", "SIGURG", "SIGUSR1", "SIGUSR2", "SIGVTALRM", "SIGWINCH", "SIGXCPU",
    "SIGXFSZ",
)  # fmt: skip
_HOOKS: Final = ("lifecycle", "livenessProbe", "readinessProbe", "startupProbe")


def check_containers(spec: Mapping[str, Any], volumes: Collection[str], path: str) -> Problems:
    """Main and init containers; ``volumes`` are the names that mounts may refer to."""
    containers = spec.get("containers")
    if not containers:
        # A missing list is the schema's to report.
        if containers is not None:
            yield FieldError.required(f"{path}.containers")
        containers = ()
    seen: set[str] = set()
    for index, container in enumerate(containers):
        at = element(f"{path}.containers", index)
        yield from _check(container, volumes, at)
        yield from _check_unique(container, seen, at)
        yield from _check_hooks(container, at)
        if container.get("restartPolicy") is not None:
            yield FieldError.forbidden(f"{at}.restartPolicy", "may not be set for non-init containers")
    for index, container in enumerate(spec.get("initContainers") or ()):
        at = element(f"{path}.initContainers", index)
        yield from _check(container, volumes, at)
        yield from _check_unique(container, seen, at)
        policy = container.get("restartPolicy")
        if policy not in (None, "Always"):
            yield FieldError.not_supported(f"{at}.restartPolicy", policy, ["Always"])
        if policy == "Always":
            yield from _check_hooks(container, at)
        else:
            for hook in _HOOKS:
                if container.get(hook) is not None:
                    yield FieldError.forbidden(f"{at}.{hook}", _SIDECARS_ONLY)
    yield from _check_host_ports(containers, f"{path}.containers")


def _check_unique(container: Container, seen: set[str], path: str) -> Problems:
    name = container.get("name", "")
    if name and name in seen:
        yield FieldError.duplicate(f"{path}.name", name)
    seen.add(name)


def _check(container: Container, volumes: Collection[str], path: str) -> Problems:
    yield from dns_label(f"{path}.name", container.get("name", ""))
    image = container.get("image", "")
    if not image:
        yield FieldError.required(f"{path}.image")
    elif image != image.strip():
        yield FieldError.invalid(f"{path}.image", image, "must not have leading or trailing whitespace")
    for field in ("workingDir", "terminationMessagePath"):
        yield from without_nul(f"{path}.{field}", container.get(field))
    for field in ("command", "args"):
        for index, word in enumerate(container.get(field) or ()):
            yield from without_nul(element(f"{path}.{field}", index), word)
    yield from _check_ports(container, f"{path}.ports")
    yield from _check_environment(container, path)
    yield from _check_mounts(container, volumes, path)
    yield from _check_resources(container.get("resources") or {}, f"{path}.resources")
    yield from check_ids(container.get("securityContext") or {}, f"{path}.securityContext")


def _check_ports(container: Container, path: str) -> Problems:
    names: set[str] = set()
    for index, each in enumerate(container.get("ports") or ()):
        at = element(path, index)
        name = each.get("name", "")
        if name:
            problems = list(port_name(f"{at}.name", name))
            yield from problems
            if not problems and name in names:
                yield FieldError.duplicate(f"{at}.name", name)
            names.add(name)
        if not each.get("containerPort"):
            yield FieldError.required(f"{at}.containerPort")
        else:
            yield from port(f"{at}.containerPort", each["containerPort"])
        if each.get("hostPort"):
            yield from port(f"{at}.hostPort", each["hostPort"])


def _check_host_ports(containers: Collection[Container], path: str) -> Problems:
    taken: set[tuple[str, str, int]] = set()
    for index, container in enumerate(containers):
        for number, each in enumerate(container.get("ports") or ()):
            if not each.get("hostPort"):
                continue
            key = (each.get("protocol", "TCP"), each.get("hostIP", ""), each["hostPort"])
            if key in taken:
                at = element(f"{element(path, index)}.ports", number)
                yield FieldError.duplicate(f"{at}.hostPort", "/".join(map(str, key)))
            taken.add(key)


def _check_environment(container: Container, path: str) -> Problems:
    for index, variable in enumerate(container.get("env") or ()):
        at = element(f"{path}.env", index)
        name = variable.get("name", "")
        if not name:
            yield FieldError.required(f"{at}.name")
        elif not _RELAXED_ENV(name):
            yield FieldError.invalid(
                f"{at}.name",
                name,
                "a valid environment variable name must consist only of printable ASCII characters other "
                "than '='",
            )
        if "\0" in (variable.get("value") or ""):
            # It is not quoted: many a password is in a variable.
            yield FieldError.invalid(f"{at}.value", "", "must not contain a NUL character")
        if variable.get("valueFrom") is not None:
            yield from _check_value_from(variable, f"{at}.valueFrom")
    for index, source in enumerate(container.get("envFrom") or ()):
        at = element(f"{path}.envFrom", index)
        given = [name for name in ("configMapRef", "secretRef") if source.get(name) is not None]
        if not given:
            yield FieldError.invalid(at, "", "must specify one of: `configMapRef` or `secretRef`")
        elif len(given) > 1:
            yield FieldError.invalid(at, "", "may not have more than one field specified at a time")
        elif not source[given[0]].get("name"):
            yield FieldError.required(f"{at}.{given[0]}.name")


def _check_value_from(variable: Container, path: str) -> Problems:
    given = [name for name in _SOURCES if variable["valueFrom"].get(name) is not None]
    for name in given:
        source, at = variable["valueFrom"][name], f"{path}.{name}"
        match name:
            case "fieldRef":
                asked = source.get("fieldPath", "")
                if not asked:
                    yield FieldError.required(f"{at}.fieldPath")
                elif asked not in _ENV_FIELDS and not _SUBSCRIPT(asked):
                    yield FieldError.not_supported(f"{at}.fieldPath", asked, _ENV_FIELDS)
            case "resourceFieldRef":
                yield from check_resource_field(source, at)
            case _:
                for needed in ("name", "key"):
                    if not source.get(needed):
                        yield FieldError.required(f"{at}.{needed}")
    if not given:
        yield FieldError.invalid(
            path,
            "",
            "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef` or `secretKeyRef`",
        )
    elif variable.get("value"):
        yield FieldError.invalid(path, "", "may not be specified when `value` is not empty")
    elif len(given) > 1:
        yield FieldError.invalid(path, "", "may not have more than one field specified at a time")


def _check_mounts(container: Container, volumes: Collection[str], path: str) -> Problems:
    places: set[str] = set()
    for index, mount in enumerate(container.get("volumeMounts") or ()):
        at = element(f"{path}.volumeMounts", index)
        name, place = mount.get("name", ""), mount.get("mountPath", "")
        if not name:
            yield FieldError.required(f"{at}.name")
        elif name not in volumes:
            yield FieldError.not_found(f"{at}.name", name)
        if not place:
            yield FieldError.required(f"{at}.mountPath")
        elif place in places:
            yield FieldError.invalid(f"{at}.mountPath", place, "must be unique")
        places.add(place)
        yield from without_nul(f"{at}.mountPath", place)
        for field in ("subPath", "subPathExpr"):
            if mount.get(field):
                yield from descending_path(f"{at}.{field}", mount[field])
        if mount.get("subPath") and mount.get("subPathExpr"):
            yield FieldError.invalid(
                f"{at}.subPathExpr", mount["subPathExpr"], "subPathExpr and subPath are mutually exclusive"
            )
    for index, device in enumerate(container.get("volumeDevices") or ()):
        at = element(f"{path}.volumeDevices", index)
        if device.get("name", "") not in volumes:
            yield FieldError.not_found(f"{at}.name", device.get("name", ""))
        if not device.get("devicePath"):
            yield FieldError.required(f"{at}.devicePath")


def _check_resources(resources: Container, path: str) -> Problems:
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    for side, amounts in (("limits", limits), ("requests", requests)):
        for name, value in amounts.items():
            parsed = amount(value)
            if parsed is not None and parsed.to_float() < 0:
                yield FieldError.invalid(
                    entry(f"{path}.{side}", name), value, "must be greater than or equal to 0"
                )
    for name, value in requests.items():
        asked, limit = amount(value), amount(limits[name]) if name in limits else None
        if asked is not None and limit is not None and limit < asked:
            yield FieldError.invalid(
                f"{path}.requests", value, f"must be less than or equal to {name} limit of {limits[name]}"
            )


def check_ids(context: Mapping[str, Any], path: str) -> Problems:
    """The user and group ids of a security context."""
    for field in ("runAsUser", "runAsGroup", "fsGroup"):
        value = context.get(field)
        if value is not None and not 0 <= value <= 2**31 - 1:
            yield FieldError.invalid(f"{path}.{field}", value, "must be between 0 and 2147483647, inclusive")


def _check_hooks(container: Container, path: str) -> Problems:
    for field, one_success in (("livenessProbe", True), ("readinessProbe", False), ("startupProbe", True)):
        if container.get(field) is not None:
            yield from check_probe(container[field], f"{path}.{field}", one_success=one_success)
    for moment in ("postStart", "preStop"):
        handler = (container.get("lifecycle") or {}).get(moment)
        if handler is not None:
            yield from check_handler(handler, f"{path}.lifecycle.{moment}")
    number = (container.get("lifecycle") or {}).get("stopSignal")
    if number is not None and number not in _SIGNALS:
        yield FieldError.not_supported(f"{path}.lifecycle.stopSignal", number, _SIGNALS)
