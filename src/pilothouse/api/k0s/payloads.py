"""What a machine downloads for an update.

    Payload("https://dl.example/k0s", "v1.31.0", "linux-amd64", sha256="9f86…")

The update agent names a payload, and a download verifies it. The two packages meet here.
"""

from __future__ import annotations

from typing import Final

import msgspec

_LONGEST: Final = 2048


class Payload(msgspec.Struct, frozen=True):
    url: str
    version: str
    platform: str
    """Operating system and architecture: linux-amd64."""
    sha256: str = ""
    """The hash that it must have, in hexadecimal digits; empty for any."""
    running: str = ""
    """The version that the machine runs, as its program reports it; empty if unknown."""
    recorded: str = ""
    """The last version that the machine is known to have had, for when ``running`` is no version."""
    replaces: bool = False
    """Whether it replaces a program that is installed."""
    forced: bool = False
    """Whether it may be older than what runs."""


class FetchedPayload(msgspec.Struct, frozen=True):
    """A payload that is on disk and verified."""

    sha256: str
    """The hash of what was downloaded, in lower-case hexadecimal digits."""
    name: str
    """The file name that the server gave it, or the last part of its URL. It is not checked."""


class DownloadFailed(Exception):
    """A payload can't be downloaded, or is not the one that was named. The message says why."""

    def __init__(self, reason: str) -> None:
        super().__init__(failure_reason(reason))


def failure_reason(text: str) -> str:
    r"""Why an update has failed, as journal and status can hold it: parts of it come from servers.

    >>> failure_reason("it redirects to http://a/\udcff")
    'it redirects to http://a/\\udcff'
    """
    return text[:_LONGEST].encode("utf-8", "backslashreplace").decode()[:_LONGEST]
