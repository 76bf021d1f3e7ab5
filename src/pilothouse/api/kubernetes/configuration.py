"""ConfigMaps and Secrets: keys that can be file names, a maximum size, immutable data."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from pilothouse.api.kubernetes.shared_checks import Problems, config_keys, unchanged
from pilothouse.meta.fields import FieldError, entry
from pilothouse.meta.kind import Object

_LARGEST: Final = 1024 * 1024
_FROZEN: Final = "field is immutable when `immutable` is set"
_NEEDED: Final[Mapping[str, tuple[str, ...]]] = {
    "kubernetes.io/dockercfg": (".dockercfg",),
    "kubernetes.io/dockerconfigjson": (".dockerconfigjson",),
    "kubernetes.io/ssh-auth": ("ssh-privatekey",),
    "kubernetes.io/tls": ("tls.crt", "tls.key"),
}
_ACCOUNT_NAME: Final = "kubernetes.io/service-account.name"


def validate_config_map(new: Object, old: Object | None) -> Problems:
    data, binary = new.get("data") or {}, new.get("binaryData") or {}
    yield from config_keys("data", data)
    if binary:
        yield from config_keys("binaryData", binary)
        for key in data:
            if key in binary:
                yield FieldError.invalid(entry("data", key), key, "duplicate of key present in binaryData")
    # No character takes more than four bytes, so few objects need to be measured exactly.
    if sum(map(len, data.values())) * 4 + sum(map(len, binary.values())) > _LARGEST:
        size = sum(len(value.encode(errors="surrogatepass")) for value in data.values())
        if size + sum(_decoded_size(value) for value in binary.values()) > _LARGEST:
            yield FieldError.too_long("", _LARGEST)
    yield from _frozen(new, old, "data", "binaryData")


def drop_empty_data(obj: Object) -> None:
    """Drop data without keys, as Kubernetes does, so that no manager owns it."""
    for field in ("data", "binaryData"):
        if obj.get(field) == {}:
            del obj[field]


def fold_string_data(secret: Object) -> None:
    """Move the write-only ``stringData`` into ``data``."""
    texts = secret.pop("stringData", None) or {}
    if texts:
        encoded = {
            key: b64encode(str(value).encode(errors="surrogatepass")).decode() for key, value in texts.items()
        }
        secret["data"] = {**(secret.get("data") or {}), **encoded}
    drop_empty_data(secret)


def validate_secret(new: Object, old: Object | None) -> Problems:
    data = new.get("data") or {}
    yield from config_keys("data", data)
    if sum(_decoded_size(value) for value in data.values()) > _LARGEST:
        yield FieldError.too_long("data", _LARGEST)
    yield from _check_type(new, data)
    if old is not None:
        yield from unchanged("type", new.get("type", ""), old.get("type", ""))
    yield from _frozen(new, old, "data")


def _check_type(secret: Object, data: Mapping[str, Any]) -> Problems:
    kind = secret.get("type", "")
    for key in _NEEDED.get(kind, ()):
        if not data.get(key) and not (kind == "kubernetes.io/tls" and key in data):
            yield FieldError.required(entry("data", key))
    if kind == "kubernetes.io/basic-auth" and not data.keys() & {"username", "password"}:
        yield FieldError.required(entry("data", "username"))
        yield FieldError.required(entry("data", "password"))
    if kind == "kubernetes.io/service-account-token":
        annotations = secret["metadata"].get("annotations") or {}
        if not annotations.get(_ACCOUNT_NAME):
            yield FieldError.required(entry("metadata.annotations", _ACCOUNT_NAME))
    if kind in ("kubernetes.io/dockercfg", "kubernetes.io/dockerconfigjson"):
        yield from _check_registry(data, _NEEDED[kind][0])


def _check_registry(data: Mapping[str, Any], key: str) -> Problems:
    if not data.get(key):
        return
    try:
        msgspec.json.decode(msgspec.convert(data[key], bytes), type=dict)
    except (msgspec.DecodeError, msgspec.ValidationError, UnicodeDecodeError, RecursionError):
        yield FieldError.invalid(entry("data", key), "<secret contents redacted>", "must be a JSON object")


def _frozen(new: Object, old: Object | None, *fields: str) -> Problems:
    if old is None or not old.get("immutable"):
        return
    if not new.get("immutable"):
        yield FieldError.forbidden("immutable", _FROZEN)
    for field in fields:
        if (new.get(field) or {}) != (old.get(field) or {}):
            yield FieldError.forbidden(field, _FROZEN)


def _decoded_size(encoded: str) -> int:
    return len(encoded) * 3 // 4 - encoded[-2:].count("=")
