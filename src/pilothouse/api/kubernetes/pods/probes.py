"""Validation of probes and lifecycle hooks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pilothouse.api.kubernetes.shared_checks import Problems, not_negative, port, port_or_name, without_nul
from pilothouse.meta.fields import FieldError, element

_NUMBERS = ("initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold")
_HANDLERS = ("exec", "httpGet", "tcpSocket", "grpc", "sleep")


def check_probe(probe: Mapping[str, Any], path: str, *, one_success: bool) -> Problems:
    """One probe; a liveness or startup probe has a success threshold of 1."""
    yield from check_handler(probe, path)
    for name in _NUMBERS:
        yield from not_negative(f"{path}.{name}", probe.get(name))
    grace = probe.get("terminationGracePeriodSeconds")
    if grace is not None and grace <= 0:
        yield FieldError.invalid(f"{path}.terminationGracePeriodSeconds", grace, "must be greater than 0")
    if one_success and probe.get("successThreshold", 1) != 1:
        yield FieldError.invalid(f"{path}.successThreshold", probe["successThreshold"], "must be 1")


def check_handler(handler: Mapping[str, Any], path: str) -> Problems:
    """The action of a probe or hook."""
    found = [name for name in _HANDLERS if handler.get(name) is not None]
    if not found:
        yield FieldError.required(path, "must specify a handler type")
        return
    for extra in found[1:]:
        yield FieldError.forbidden(f"{path}.{extra}", "may not specify more than 1 handler type")
    action, at = handler[found[0]], f"{path}.{found[0]}"
    match found[0]:
        case "exec":
            if not action.get("command"):
                yield FieldError.required(f"{at}.command")
            for index, word in enumerate(action.get("command") or ()):
                yield from without_nul(element(f"{at}.command", index), word)
        case "httpGet":
            if not action.get("path"):
                yield FieldError.required(f"{at}.path")
            yield from port_or_name(f"{at}.port", action.get("port", 0))
            for field in ("host", "path"):
                yield from without_nul(f"{at}.{field}", action.get(field))
        case "tcpSocket":
            yield from without_nul(f"{at}.host", action.get("host"))
            yield from port_or_name(f"{at}.port", action.get("port", 0))
        case "grpc":
            yield from port(f"{at}.port", action.get("port", 0))
        case "sleep":
            if action.get("seconds", 0) < 0:
                yield FieldError.invalid(
                    f"{at}.seconds", action["seconds"], "must be greater than or equal to 0"
                )
