"""Before the start: whether the machine lets a node run, and its files. Every refusal says what would help.

layout = DataLayout(instance.folder)
check_machine(layout, build, instance.address)
write_configuration(layout, home, build, settings, files)
"""

from __future__ import annotations

import os
import re
import resource
import shutil
from collections.abc import Mapping
from ipaddress import ip_address
from pathlib import Path
from typing import Any, Final

from pilothouse.api.navigator.conditions import WRONG_IMAGE
from pilothouse.meta.versions import Version
from pilothouse.pilot.driver import HookFailed
from pilothouse.pilot.drivers.elasticsearch.settings import Build, jvm_options, written

LEAST_FILES: Final = 65535
"""Elasticsearch itself insists on it, unless it listens on a loopback address."""
LEAST_FILES_ALONE: Final = 4096
LEAST_MAPS: Final = 262144
LEAST_DISK: Final = 64 * 1024 * 1024
_HOMES: Final = ("/usr/share/elasticsearch", "/opt/elasticsearch")
_IMPORT_AGAIN: Final = (
    "Import an archive of it under the name of the pod's image; the container then restarts with it by itself"
)
_JAR: Final = re.compile(r"elasticsearch-(\d+\.\d+\.\d+)\.jar")
_OURS: Final = ("elasticsearch.yml", "jvm.options")


class DataLayout:
    """The folders on the data volume."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.data = root / "data"
        self.logs = root / "logs"
        self.configuration = root / "config"
        self.temporary = root / "tmp"
        self.version_file = root / "version"


def find_home(environ: Mapping[str, str]) -> Path:
    """Where Elasticsearch is. Raises ``HookFailed``."""
    for candidate in (environ.get("ES_HOME"), *_HOMES):
        if candidate and (Path(candidate) / "lib").is_dir():
            return Path(candidate)
        # An archive that was imported as it is has everything in one folder.
        inside = sorted(Path(candidate).glob("elasticsearch-*/lib")) if candidate else []
        if len(inside) == 1:
            return inside[0].parent
    raise HookFailed(
        f"{WRONG_IMAGE}: there is none in {' or '.join(_HOMES)}, nor in ES_HOME. {_IMPORT_AGAIN}"
    )


def build_at(home: Path) -> Build:
    """The Elasticsearch in a folder. Raises ``HookFailed``."""
    for file in (home / "lib").iterdir():
        if match := _JAR.fullmatch(file.name):
            return Build(match[1], secured=(home / "modules" / "x-pack-security").is_dir())
    raise HookFailed(f"{WRONG_IMAGE}: {home}/lib has no elasticsearch-VERSION.jar. {_IMPORT_AGAIN}")


def check_machine(layout: DataLayout, build: Build, address: str) -> None:
    """Raises ``HookFailed`` for what would keep a node from running, before it is tried."""
    if os.geteuid() == 0:
        raise HookFailed(
            "Elasticsearch does not run as root: set spec.securityContext.runAsUser, such as 1000"
        )
    for folder in (layout.data, layout.logs, layout.configuration, layout.temporary):
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as problem:
            raise HookFailed(
                f"{folder} can't be created: {problem.strerror}; the data volume has to belong to user "
                f"{os.geteuid()}: set securityContext.fsGroup, or change its owner"
            ) from None
        if not os.access(folder, os.W_OK):
            raise HookFailed(f"{folder} can't be written by user {os.geteuid()}; change its owner")
    _raise_file_limit(LEAST_FILES_ALONE if ip_address(address).is_loopback else LEAST_FILES)
    free = shutil.disk_usage(layout.data).free
    if free < LEAST_DISK:
        raise HookFailed(
            f"only {free // 2**20} MiB are left at {layout.data}: expand the volume, or free space on it"
        )
    check_version(layout, build)


def check_version(layout: DataLayout, build: Build) -> None:
    """Raises ``HookFailed`` if a later version may have written to the folder."""
    if not layout.version_file.exists():
        return
    before = layout.version_file.read_text().strip()
    if before and Version.parse(before) > Version.parse(build.version):
        raise HookFailed(
            f"the data was written by Elasticsearch {before}, and {build.version} can't read it: "
            f"go back to {before} or later, or start with an empty volume"
        )


def _raise_file_limit(least: int) -> None:
    """Raise it as far as allowed, at least to this; the database inherits it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    allowed = hard if hard != resource.RLIM_INFINITY else LEAST_FILES
    if soft != resource.RLIM_INFINITY and soft < min(allowed, LEAST_FILES):
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(allowed, LEAST_FILES), hard))
    if allowed < least:
        raise HookFailed(
            f"only {allowed} files may be open, {least} are needed: raise the machine's limit (ulimit -n)"
        )


def maps_memory() -> bool:
    """Whether the kernel allows as many memory maps as Elasticsearch wants for its files."""
    return int(Path("/proc/sys/vm/max_map_count").read_text()) >= LEAST_MAPS


def write_configuration(
    layout: DataLayout, home: Path, build: Build, settings: Mapping[str, Any], files: Mapping[str, str]
) -> None:
    """The image's own files, ours, and those that the Pilot adds. Raises ``HookFailed``."""
    given, target = home / "config", layout.configuration
    try:
        shutil.copytree(given, target, dirs_exist_ok=True, ignore=_left_out)
        (target / "jvm.options").write_text(jvm_options((given / "jvm.options").read_text()))
        (target / "elasticsearch.yml").write_text(written(settings))
        for name, text in files.items():
            if Path(name).name != name:
                raise HookFailed(f"spec.configuration.files: {name!r} must be a name, without folders")
            (target / name).write_text(text)
        layout.version_file.write_text(build.version + "\n")
    except OSError as problem:
        raise HookFailed(f"the configuration can't be written: {problem}") from None


def _left_out(folder: str, names: list[str]) -> set[str]:
    """Our own files, and those that this user can't read."""
    return {name for name in names if name in _OURS or not os.access(os.path.join(folder, name), os.R_OK)}
