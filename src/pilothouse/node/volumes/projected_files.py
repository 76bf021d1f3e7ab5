"""The files of a volume from config maps, secrets, pod fields or tokens, or several of these.

    needed(volume)                                  # the config maps and secrets, and the tokens, that it is made of
    files = payload(pod, volume, sources, tokens, allocatable)
    files["app.conf"].content

What is missing and not optional is ``VolumeNotReady``, in kubelet's words.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from pilothouse.api.objects import Object, Tree
from pilothouse.node.containers.environment import (
    CONFIG_MAP,
    SECRET,
    Source,
    Sources,
    field_value,
    resource_value,
)
from pilothouse.node.interfaces import NotReady, VolumeNotReady

KINDS: Final = ("configMap", "secret", "downwardAPI", "projected")
_MODE: Final = 0o644
_FAILED: Final = "FailedMount"


class ProjectedFile(msgspec.Struct, frozen=True):
    """One file."""

    content: bytes
    mode: int
    secret: bool = False
    """Whether it is a token: readable by nobody but who runs the pod, where that is one user."""


class TokenSource(msgspec.Struct, frozen=True):
    """A token that a volume asks for."""

    path: str
    audience: str = ""
    seconds: int = 3600


Tokens = Mapping[TokenSource, str]


def sources_of(volume: Tree) -> list[tuple[str, Tree]]:
    """The parts of a volume of files, each with its kind: one, or those that are projected into it."""
    for kind in KINDS[:3]:
        if volume.get(kind) is not None:
            return [(kind, volume[kind])]
    return [
        (kind, source)
        for each in (volume.get("projected") or {}).get("sources") or ()
        for kind, source in each.items()
        if source is not None
    ]


def needed(volume: Tree) -> set[Source]:
    """The config maps and secrets that it is made of."""
    found: set[Source] = set()
    for kind, source in sources_of(volume):
        if kind == "configMap":
            found.add((CONFIG_MAP, source.get("name", "")))
        elif kind == "secret":
            found.add((SECRET, source.get("secretName") or source.get("name", "")))
    return found


def tokens_needed(volume: Tree) -> set[TokenSource]:
    return {
        TokenSource(source["path"], source.get("audience") or "", source.get("expirationSeconds") or 3600)
        for kind, source in sources_of(volume)
        if kind == "serviceAccountToken"
    }


def payload(
    pod: Object, volume: Tree, sources: Sources, tokens: Tokens, allocatable: Mapping[str, str]
) -> dict[str, ProjectedFile]:
    """The files by their paths below the volume. Raises VolumeNotReady."""
    whole = next(volume[kind] for kind in KINDS if volume.get(kind) is not None)
    default = whole.get("defaultMode")
    default = _MODE if default is None else default
    files: dict[str, ProjectedFile] = {}
    try:
        for kind, source in sources_of(volume):
            match kind:
                case "configMap" | "secret":
                    found = _held(kind, source, sources)
                    files |= _items(kind, source, found, default) if found is not None else {}
                case "downwardAPI":
                    files |= _fields(pod, source, default, allocatable)
                case "serviceAccountToken":
                    wish = TokenSource(
                        source["path"], source.get("audience") or "", source.get("expirationSeconds") or 3600
                    )
                    files[wish.path] = ProjectedFile(tokens[wish].encode(), default, secret=True)
                case other:
                    raise VolumeNotReady(
                        _FAILED,
                        f"volume {volume['name']}: projected source {other} is not supported on this node",
                    )
    except NotReady as problem:
        raise VolumeNotReady(_FAILED, f'volume "{volume["name"]}": {problem.message}') from None
    return files


def _held(kind: str, source: Tree, sources: Sources) -> Object | None:
    name = source.get("secretName") or source.get("name", "")
    found = sources.get((CONFIG_MAP if kind == "configMap" else SECRET, name))
    if found is None and not source.get("optional"):
        raise NotReady(_FAILED, f'{kind.lower()} "{name}" not found')
    return found


def _items(kind: str, source: Tree, held: Object, default: int) -> dict[str, ProjectedFile]:
    contents = dict(_contents(kind, held))
    if not source.get("items"):
        return {key: ProjectedFile(content, default) for key, content in contents.items()}
    files = {}
    for item in source["items"]:
        if item["key"] in contents:
            mode = item.get("mode")
            files[item["path"]] = ProjectedFile(contents[item["key"]], default if mode is None else mode)
        elif not source.get("optional"):
            missing = f"references non-existent {kind.lower()} key: {item['key']}"
            raise NotReady(_FAILED, f'{missing} ({kind.lower()} "{held.name}")')
    return files


def _contents(kind: str, held: Object) -> Iterator[tuple[str, bytes]]:
    for key, value in (held.get("data") or {}).items():
        yield key, value.encode() if kind == "configMap" else base64.b64decode(value)
    if kind == "configMap":
        for key, value in (held.get("binaryData") or {}).items():
            yield key, base64.b64decode(value)


def _fields(
    pod: Object, source: Tree, default: int, allocatable: Mapping[str, str]
) -> dict[str, ProjectedFile]:
    files = {}
    for item in source.get("items") or ():
        mode = item.get("mode")
        if reference := item.get("fieldRef"):
            text = _field(pod, reference["fieldPath"])
        else:
            reference = item["resourceFieldRef"]
            text = resource_value(pod, {"name": ""}, reference, allocatable)
        files[item["path"]] = ProjectedFile(text.encode(), default if mode is None else mode)
    return files


def _field(pod: Object, path: str) -> str:
    """A field as a volume has it: all labels and annotations are possible there, one a line."""
    held: Mapping[str, Any] | None = None
    if path == "metadata.labels":
        held = pod.labels
    elif path == "metadata.annotations":
        held = pod.annotations
    if held is None:
        return field_value(pod, path, address="", host="")
    return "\n".join(f"{key}={_quoted(str(held[key]))}" for key in sorted(held))


def _quoted(value: str) -> str:
    """As Go's ``%q`` has it, which programs that read such files know."""
    return msgspec.json.encode(value).decode()
