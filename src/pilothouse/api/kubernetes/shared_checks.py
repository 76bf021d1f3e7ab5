"""Checks that many kinds share: generators of field errors in Kubernetes' words.

yield from port("spec.ports[0].port", 70000)
# spec.ports[0].port: Invalid value: 70000: must be between 1 and 65535, inclusive
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from pilothouse.base.quantity import Quantity, QuantityError, parse_quantity
from pilothouse.meta.fields import FieldError, child, element, entry
from pilothouse.meta.names import label, qualified_name, subdomain, validate_labels

Problems = Iterator[FieldError]

_CONFIG_KEY: Final = re.compile(r"[-._a-zA-Z0-9]+").fullmatch
_IMMUTABLE: Final = "field is immutable"


def named(path: str, value: str, rule: Callable[[str], str] = subdomain) -> Problems:
    """A required name that follows a rule."""
    if not value:
        yield FieldError.required(path)
    else:
        yield from follows(path, value, rule)


def follows(path: str, value: str, rule: Callable[[str], str]) -> Problems:
    """Text that follows a rule."""
    if problem := rule(value):
        yield FieldError.invalid(path, value, problem)


def port(path: str, value: int) -> Problems:
    if not 0 < value < 65536:
        yield FieldError.invalid(path, value, "must be between 1 and 65535, inclusive")


def port_name(path: str, value: str) -> Problems:
    """The name of a port: an IANA service name."""
    problems = []
    if len(value) > 15:
        problems.append("must be no more than 15 characters")
    if re.search(r"[^a-z0-9-]", value) or not value:
        problems.append("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)")
    if not re.search(r"[a-z]", value):
        problems.append("must contain at least one letter (a-z)")
    if "--" in value:
        problems.append("must not contain consecutive hyphens")
    if value.startswith("-") or value.endswith("-"):
        problems.append("must not begin or end with a hyphen")
    for problem in problems:
        yield FieldError.invalid(path, value, problem)


def port_or_name(path: str, value: int | str) -> Problems:
    yield from port_name(path, value) if isinstance(value, str) else port(path, value)


def not_negative(path: str, value: int | None) -> Problems:
    if value is not None and value < 0:
        yield FieldError.invalid(path, value, "must be greater than or equal to 0")


def amount(value: Any) -> Quantity | None:
    """A quantity, or None for an invalid one, which the schema's check reports."""
    try:
        return parse_quantity(value)
    except QuantityError:
        return None


def count_or_percent(path: str, value: int | str) -> Problems:
    """For ``maxUnavailable`` and the like: a non-negative number or a percentage."""
    if isinstance(value, int):
        yield from not_negative(path, value)
    elif not re.fullmatch(r"[0-9]+%", value):
        yield FieldError.invalid(
            path, value, "a valid percent string must be a numeric string followed by an ending '%'"
        )
    elif int(value[:-1]) > 100:
        yield FieldError.invalid(path, value, "must not be greater than 100%")


def config_keys(path: str, keys: Iterable[str]) -> Problems:
    """The keys of a ConfigMap or Secret, which become file names."""
    for key in keys:
        if len(key) > 253 or not _CONFIG_KEY(key) or key[0] == ".":
            yield from _config_key(path, key)


def _config_key(path: str, key: str) -> Problems:
    problem = ""
    if len(key) > 253:
        problem = "must be no more than 253 characters"
    elif not _CONFIG_KEY(key):
        problem = (
            "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  "
            "or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')"
        )
    elif key in (".", ".."):
        problem = f"must not be '{key}'"
    elif key.startswith(".."):
        problem = "must not start with '..'"
    if problem:
        yield FieldError.invalid(entry(path, key), key, problem)


def without_nul(path: str, value: Any) -> Problems:
    """Text for a path, an argument or a variable, which for the kernel ends at a NUL."""
    if isinstance(value, str) and "\0" in value:
        yield FieldError.invalid(path, value, "must not contain a NUL character")


def descending_path(path: str, value: str) -> Problems:
    """A path that stays inside the folder it starts from."""
    yield from without_nul(path, value)
    if value.startswith("/"):
        yield FieldError.invalid(path, value, "must be a relative path")
    if ".." in value.split("/"):
        yield FieldError.invalid(path, value, "must not contain '..'")


def address(path: str, value: str) -> Problems:
    try:
        ipaddress.ip_address(value)
    except ValueError:
        yield FieldError.invalid(path, value, "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)")


def unchanged(path: str, new: Any, old: Any, detail: str = _IMMUTABLE) -> Problems:
    if new != old:
        yield FieldError.invalid(path, new, detail)


def label_selector(selector: Mapping[str, Any], path: str) -> Problems:
    """A ``LabelSelector`` object."""
    yield from validate_labels(selector.get("matchLabels") or {}, child(path, "matchLabels"))
    for index, requirement in enumerate(selector.get("matchExpressions") or ()):
        at = element(child(path, "matchExpressions"), index)
        operator = requirement.get("operator", "")
        values = requirement.get("values") or ()
        if operator in ("In", "NotIn"):
            if not values:
                yield FieldError.required(
                    f"{at}.values", "must be specified when `operator` is 'In' or 'NotIn'"
                )
        elif operator in ("Exists", "DoesNotExist"):
            if values:
                yield FieldError.forbidden(
                    f"{at}.values", "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
                )
        else:
            yield FieldError.invalid(f"{at}.operator", operator, "not a valid selector operator")
        yield from follows(f"{at}.key", requirement.get("key", ""), qualified_name)


def dns_label(path: str, value: str) -> Problems:
    yield from named(path, value, label)
