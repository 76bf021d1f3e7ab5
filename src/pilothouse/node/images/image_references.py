"""Parses image references.

    parse_image_reference("quay.io/team/redis:7.2")         # name "quay.io/team/redis", tag "7.2"
    parse_image_reference("redis")                          # tag "latest"
    parse_image_reference("quay.io/team/redis:7.2").short   # "redis:7.2": what is looked for if there is no such image in full
    host_program("host/redis-server")                       # "redis-server"

A digest (``@sha256:…``) pins the content: an image of the right name and another content is not the one that was asked for.
"""

from __future__ import annotations

import re
from typing import Final

import msgspec

_HOST: Final = "host/"
_NAME: Final = re.compile(
    r"[a-z0-9]+([._-]+[a-z0-9]+)*(:[0-9]+)?(/[a-z0-9]+([._-]+[a-z0-9]+)*)*", re.ASCII | re.IGNORECASE
)
_TAG: Final = re.compile(r"\w[\w.-]{0,127}", re.ASCII)
_DIGEST: Final = re.compile(r"sha256:[0-9a-f]{64}", re.ASCII)
_LONGEST: Final = 512


class ImageReferenceError(ValueError):
    """The text names no image."""


class ImageReference(msgspec.Struct, frozen=True):
    """The name of an image, in parts."""

    name: str
    tag: str
    digest: str = ""

    @property
    def full(self) -> str:
        """Name and tag."""
        return f"{self.name}:{self.tag}"

    @property
    def short(self) -> str:
        """The last part of the name, and the tag."""
        return f"{self.name.rpartition('/')[2]}:{self.tag}"


def parse_image_reference(text: str) -> ImageReference:
    """Raises ImageReferenceError."""
    wrong = ImageReferenceError(
        f"{text!r} is not an image reference: expected the form NAME:TAG, as registry/team/redis:7.2"
    )
    if len(text) > _LONGEST:
        raise wrong
    rest, at, digest = text.partition("@")
    if at and not _DIGEST.fullmatch(digest):
        raise wrong
    name, colon, tag = rest.rpartition(":")
    if not colon or "/" in tag:  # What follows the colon of a port is a path.
        name, tag = rest, "latest"
    if not _NAME.fullmatch(name) or not _TAG.fullmatch(tag):
        raise wrong
    return ImageReference(name, tag, digest)


def host_program(text: str) -> str | None:
    """The program of the host that a reference names: its name, or its path without the first slash; None if it is of another kind.

    A tag says nothing about a program of the host, and is left out.
    """
    if not text.startswith(_HOST):
        return None
    program, colon, tag = text.removeprefix(_HOST).rpartition(":")
    return (program if colon and "/" not in tag else text.removeprefix(_HOST)) or None
