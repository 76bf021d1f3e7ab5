"""Update profiles: what is updated on a machine, and how.

    path: /opt/db/bin/db
    version: ["{path}", "version"]
    health: http://127.0.0.1:8080/readyz
    run: ["{path}", "serve"]              # the agent runs it; or, with a service manager:
    restart: [systemctl, restart, db]
    images: /var/lib/db/images

``{path}`` in a command stands for the path. A profile for Pilothouse itself has, in place of ``path``, the
folder that it is installed in (see ``installed_tree``); the agent is part of it, and restarts itself:

    tree: /opt/pilothouse
    restart: [systemctl, restart, pilothouse-apiserver]       # what else runs from there; may be missing
    health: https://127.0.0.1:6443/readyz                     # may be missing

The version is the first line that ``version`` prints, or the field ``Version`` if it prints a JSON object; it
should ask the process that runs, where that is possible. ``health`` is a URL or a command. After a restart
the program has to be healthy without a break for ``healthFor``, within ``healthWithin``.
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
PILOTHOUSE: Final = "pilothouse"
"""The names of the built-in profiles."""
_API_PORT: Final = 6443


class UpdateProfileError(ValueError):
    """The profile can't be used; the message names the field."""


class UpdateProfile(
    msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True, omit_defaults=True
):
    path: Path
    """The program, one file; or the link to the current tree."""
    tree: Path | None = None
    """The folder of the trees, if it is Pilothouse itself; None for another program."""
    version: Command = ()
    health: str | Command = ""
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
    """A profile from the content of its file. Raises UpdateProfileError."""
    try:
        profile = msgspec.convert(_with_path(tree), UpdateProfile, dec_hook=_path)
    except msgspec.ValidationError as problem:
        raise UpdateProfileError(str(problem)) from None
    if not profile.path.is_absolute():
        raise UpdateProfileError(f"path: {str(profile.path)!r} is not an absolute path")
    if profile.tree is not None and profile.run:
        raise UpdateProfileError("run: the agent is part of the tree, and restarts itself")
    if profile.tree is None and bool(profile.restart) == bool(profile.run):
        raise UpdateProfileError(
            "exactly one of restart and run is needed: the command that restarts the program, or the one "
            "that runs it"
        )
    if profile.tree is None and not (profile.version and profile.health):
        raise UpdateProfileError("version and health are needed")
    if (
        profile.health
        and isinstance(profile.health, str)
        and urlsplit(profile.health).scheme not in ("http", "https")
    ):
        raise UpdateProfileError(f"health: {profile.health!r} is neither a command nor an http or https URL")
    if profile.images is not None and not profile.images.is_absolute():
        raise UpdateProfileError(f"images: {str(profile.images)!r} is not an absolute path")
    durations = {
        "healthFor": profile.health_for,
        "healthWithin": profile.health_within,
        "stopGrace": profile.stop_grace,
    }
    for name, text in durations.items():
        try:
            if parse_duration(text) < 0:
                raise UpdateProfileError(f"{name}: {text!r} is negative")
        except DurationError as problem:
            raise UpdateProfileError(f"{name}: {problem}") from None
    return profile


def _with_path(tree: object) -> object:
    """The content of a profile, with the path that a tree implies."""
    if not isinstance(tree, dict) or not isinstance(tree.get("tree"), str):
        return tree
    if "path" in tree:
        raise UpdateProfileError("only one of path and tree is possible")
    return {**tree, "path": str(Path(tree["tree"], "current"))}


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


def pilothouse_profile(root: Path, mode: Mode, api_port: int) -> UpdateProfile:
    """Pilothouse itself, installed as trees below a folder. Of a controller, its services, too."""
    if mode == "worker":
        return UpdateProfile(path=root / "current", tree=root)
    return UpdateProfile(
        path=root / "current",
        tree=root,
        health=f"https://127.0.0.1:{api_port or _API_PORT}/readyz",
        restart=("systemctl", "restart", "pilothouse-apiserver", "pilothouse-controller-manager"),
    )
