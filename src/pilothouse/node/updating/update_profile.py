"""Update profiles: what is updated on a machine, and how.

    path: /opt/db/bin/db
    version: ["{path}", "version"]
    health: http://127.0.0.1:8080/readyz
    run: ["{path}", "serve"]              # the agent runs it; or, with a service manager:
    restart: [systemctl, restart, db]
    images: /var/lib/db/images

``{path}`` in a command stands for the path. The first line that ``version`` prints is the version, or the
field ``Version`` of a JSON object; it should ask the process that runs, where that is possible. ``health`` is
a URL or a command. After a restart the program has to be healthy without a break for ``healthFor``, within
``healthWithin``.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final, Literal
from urllib.parse import urlsplit

import msgspec

from pilothouse.base.duration import DurationError, parse_duration

Mode = Literal["worker", "controller", "controller+worker"]
Command = tuple[str, ...]

K0S: Final = "k0s"
"""The name of the built-in profile."""


class ProfileError(ValueError):
    """The profile can't be used; the message names the field."""


class UpdateProfile(
    msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True, omit_defaults=True
):
    path: Path
    """The program, one file."""
    version: Command
    health: str | Command
    restart: Command = ()
    """A command that restarts it; empty if the agent runs it."""
    run: Command = ()
    """The command line with which the agent runs it; empty if a service manager does."""
    environment: Mapping[str, str] = {}
    """Of a program that the agent runs, beside the agent's own."""
    images: Path | None = None
    """Where bundles of images go; None for the library of the node."""
    health_for: str = "10s"
    health_within: str = "5m"
    stop_grace: str = "30s"
    """How long a program that the agent runs may take to stop."""

    def expanded(self, command: Command, path: Path | None = None) -> Command:
        """A command for the program at its path, or at another."""
        return tuple(word.replace("{path}", str(path or self.path)) for word in command)

    def seconds(self, field: Literal["health_for", "health_within", "stop_grace"]) -> float:
        return parse_duration(getattr(self, field))


def read_profile(tree: object) -> UpdateProfile:
    """A profile from the content of its file. Raises ProfileError."""
    try:
        profile = msgspec.convert(tree, UpdateProfile, dec_hook=_path)
    except msgspec.ValidationError as problem:
        raise ProfileError(str(problem)) from None
    if not profile.path.is_absolute():
        raise ProfileError(f"path: {str(profile.path)!r} is not an absolute path")
    if bool(profile.restart) == bool(profile.run):
        raise ProfileError(
            "exactly one of restart and run is needed: the command that restarts the program, or the one "
            "that runs it"
        )
    if not profile.version or not profile.health:
        raise ProfileError("version and health are needed")
    if isinstance(profile.health, str) and urlsplit(profile.health).scheme not in ("http", "https"):
        raise ProfileError(f"health: {profile.health!r} is neither a command nor an http or https URL")
    if profile.images is not None and not profile.images.is_absolute():
        raise ProfileError(f"images: {str(profile.images)!r} is not an absolute path")
    durations = {
        "healthFor": profile.health_for,
        "healthWithin": profile.health_within,
        "stopGrace": profile.stop_grace,
    }
    for name, text in durations.items():
        try:
            if parse_duration(text) < 0:
                raise ProfileError(f"{name}: {text!r} is negative")
        except DurationError as problem:
            raise ProfileError(f"{name}: {problem}") from None
    return profile


def _path(kind: type, value: object) -> object:
    if kind is Path and isinstance(value, str):
        return Path(value)
    raise NotImplementedError(f"{kind} is not a type of a profile")


def k0s_profile(mode: Mode) -> UpdateProfile:
    """k0s, installed by its own installer, as a service of systemd."""
    service = "k0sworker" if mode == "worker" else "k0scontroller"
    return UpdateProfile(
        path=Path("/usr/local/bin/k0s"),
        version=("{path}", "status", "--out", "json"),
        health=("{path}", "status"),
        restart=("systemctl", "restart", service),
        images=Path("/var/lib/k0s/images"),
    )
