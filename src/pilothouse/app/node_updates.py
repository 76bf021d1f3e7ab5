"""The update agent of a machine, composed from its flags.

    options = UpdateOptions(profile=load_profile("db.yaml", "controller"), mode="controller")
    agent = update_agent(options, settings, api, clock, restart)

``node`` and ``updates`` don't know each other: the downloads are handed in here.
"""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

import yaml

import pilothouse
from pilothouse.app.options import StartError, read_file, read_text
from pilothouse.app.tree_installation import own_root
from pilothouse.base.clock import Clock
from pilothouse.client.api import Api
from pilothouse.node.files.directory_owners import why_replaceable
from pilothouse.node.settings import NodeSettings
from pilothouse.node.updating.installed_tree import LAUNCHER
from pilothouse.node.updating.own_program import OwnInstallation
from pilothouse.node.updating.update_agent import UpdateAgent, UpdateAgentSettings
from pilothouse.node.updating.update_profile import (
    K0S,
    PILOTHOUSE,
    Mode,
    UpdateProfile,
    UpdateProfileError,
    k0s_profile,
    pilothouse_profile,
    read_profile,
)
from pilothouse.pki.minisign import PublicKey, SignatureError
from pilothouse.updates.download_requests import DownloadHosts
from pilothouse.updates.downloads import Downloads, DownloadSettings
from pilothouse.updates.payload_trust import PayloadPolicy, PayloadTrust


@dataclass(frozen=True, kw_only=True)
class UpdateOptions:
    profile: UpdateProfile
    mode: Mode = "worker"
    pods: bool = True
    """Whether the machine is a node that runs pods, too."""
    downloads: DownloadSettings = field(default_factory=DownloadSettings)
    api_port: int = 0
    """The port of the machine's API server; 0 for none."""


def update_agent(
    options: UpdateOptions, settings: NodeSettings, api: Api, clock: Clock, restart: Callable[[], None]
) -> UpdateAgent:
    """``restart`` has this process end, to be started again by ``start_again``. Raises StartError if other
    users could replace what the agent installs and runs."""
    profile = options.profile
    for folder, what in ((Path(profile.path).parent, "the program"), (profile.images, "the bundles")):
        if folder and (problem := why_replaceable(Path(folder), what)):
            raise StartError(f"the update profile: {problem}")
    own = UpdateAgentSettings(
        name=settings.name,
        data=settings.data / "updates",
        library=settings.data / "images",
        profile=options.profile,
        mode=options.mode,
        address=settings.address,
        api_port=options.api_port,
    )
    itself = OwnInstallation(Path(sys.prefix), f"v{pilothouse.__version__}", restart)
    return UpdateAgent(api, own, Downloads(options.downloads, clock), clock, random.Random(), itself)


def start_again(profile: UpdateProfile) -> NoReturn:
    """Start this process again with the same arguments, in the version that is installed. Raises OSError."""
    assert profile.tree is not None, "only a process of a tree restarts itself"
    launcher = str(profile.tree / LAUNCHER)
    os.execv(launcher, [launcher, *sys.argv[1:]])


def load_profile(named: str, mode: Mode, api_port: int = 0) -> UpdateProfile:
    """The built-in profile of this name, or that of a file. Raises StartError."""
    if named in ("", K0S):
        return k0s_profile(mode)
    if named == PILOTHOUSE:
        return pilothouse_profile(_own_root(), mode, api_port)
    file = Path(named)
    try:
        profile = read_profile(yaml.load(read_text(file), Loader=yaml.CSafeLoader))
        if profile.tree is not None and profile.tree != _own_root():
            raise StartError(f"--update-profile {file}: tree: this program is installed in {_own_root()}")
        return profile
    except yaml.YAMLError as problem:
        raise StartError(f"{file} is not YAML: {' '.join(str(problem).split())}") from None
    except UpdateProfileError as problem:
        raise StartError(f"--update-profile {file}: {problem}") from None


def _own_root() -> Path:
    """The folder that this program is installed in, as trees. Raises StartError."""
    root = own_root()
    if root is None:
        raise StartError(
            "a program that updates itself has to run from where `pilothouse updates install` puts it; "
            f"this one runs from {sys.prefix}"
        )
    return root


def download_settings(
    policy: PayloadPolicy,
    trusted_keys: Path | None,
    authorities: Mapping[str, Path],
    tokens: Mapping[str, Path],
    most_bytes: int,
) -> DownloadSettings:
    """Raises StartError."""
    if trusted_keys is None and policy == "signed":
        raise StartError("--payloads signed needs --trusted-keys FILE: the public keys that sign them")
    for file in (*authorities.values(), *tokens.values()):
        read_file(file)
    trust = PayloadTrust(policy) if trusted_keys is None else PayloadTrust("signed", _keys(trusted_keys))
    return DownloadSettings(trust=trust, hosts=DownloadHosts(authorities, tokens), most_bytes=most_bytes)


def _keys(file: Path) -> tuple[PublicKey, ...]:
    """The public keys in a file, one to a line; other lines are comments."""
    lines = [line.strip() for line in read_text(file).splitlines()]
    comments = ("untrusted comment:", "#")
    try:
        keys = tuple(PublicKey.parse(line) for line in lines if line and not line.startswith(comments))
    except SignatureError as problem:
        raise StartError(f"--trusted-keys {file}: {problem}") from None
    if not keys:
        raise StartError(f"--trusted-keys {file}: there is no key in it")
    return keys
