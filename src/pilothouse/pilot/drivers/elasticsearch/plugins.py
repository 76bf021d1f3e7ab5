"""Plugins of a node: from a file, an URL, or the image itself; by Elasticsearch's own installer.

    statuses = await install(copy_of(image, version, root), image, desired.spec["elasticsearch"]["plugins"], environ)

They are installed into a copy of the image (see ``image_copy``); what the image has stays in it. Beside the
plugins the copy remembers where each came from: one from elsewhere takes the place of the one there is. What
an archive may hold, and whether it fits the version, is the installer's to judge; its words are what is told.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from pilothouse.aio.commands import CommandError, run
from pilothouse.api.objects import Tree
from pilothouse.pilot.driver import HookFailed
from pilothouse.pilot.drivers.elasticsearch import image_copy

_PATIENCE: Final = 300.0
_SOURCES: Final = "plugins.json"


async def install(
    target: Path, image: Path, wanted: Sequence[Mapping[str, Any]], environ: Mapping[str, str]
) -> list[Tree]:
    """The status of each plugin, all installed in the copy at ``target``. Raises ``HookFailed``, with the
    status of each."""
    asked = {str(each["name"]): str(each.get("url") or "") for each in wanted}
    statuses: list[Tree] = []
    try:
        await asyncio.to_thread(image_copy.make, image, target)
        own = _present(image)
        sources = await _without_others(target, own, asked, environ)
        for name, url in asked.items():
            problem = ""
            if name not in _present(target):
                if not url and name in own:
                    problem = await asyncio.to_thread(_taken_from_image, image, target, name)
                else:
                    problem = await _installed(target, name, url, environ)
            if problem:
                statuses.append({"name": name, "status": "Failed", "message": problem})
                continue
            sources[name] = url
            _remember(target, sources)
            statuses.append({"name": name, "status": "Installed"})
    except OSError as trouble:
        said = f"the copy at {target} can't be changed: {trouble}"
        rest = list(asked)[len(statuses) :]
        statuses += [{"name": name, "status": "Failed", "message": said} for name in rest]
        raise HookFailed(said, {"plugins": statuses}) from None
    if failed := [f"{each['name']}: {each['message']}" for each in statuses if each["status"] == "Failed"]:
        raise HookFailed("; ".join(failed), {"plugins": statuses})
    return statuses


async def _without_others(
    target: Path, own: set[str], asked: Mapping[str, str], environ: Mapping[str, str]
) -> dict[str, str]:
    """Take away what is not asked for, or should come from elsewhere. Where those that stay came from."""
    sources = _sources(target)
    for name in sorted(_present(target)):
        elsewhere = name in asked and sources.get(name, "") != asked[name]
        if elsewhere or (name not in asked and name not in own):
            await _told(target, ("remove", name), environ)
            sources.pop(name, None)
            _remember(target, sources)
    return sources


def _taken_from_image(image: Path, target: Path, name: str) -> str:
    """Back again, where one from elsewhere has been in its place. What went wrong; empty if nothing did."""
    place = Path("plugins") / name
    try:
        # A draft beside the others would be taken for a plugin.
        image_copy.put(image / place, target / place, target / f"{name}.new")
    except OSError as problem:
        return f"{image / place} can't be copied to {target / place}: {problem}"
    return ""


async def _installed(target: Path, name: str, url: str, environ: Mapping[str, str]) -> str:
    """What went wrong; empty if nothing did."""
    before = _present(target)
    if problem := await _told(target, ("install", "--batch", url or name), environ):
        return problem
    came = _present(target) - before
    if name in came:
        return ""
    for other in came:
        await _told(target, ("remove", other), environ)
    held = f"the plugin {', '.join(sorted(came))}" if came else "no plugin"
    return f"what is at {url or name} contains {held}: use that name in spec.plugins"


async def _told(target: Path, arguments: Sequence[str], environ: Mapping[str, str]) -> str:
    """What the installer complains of; empty if it does not."""
    program = str(target / "bin" / "elasticsearch-plugin")
    try:
        await run(program, *arguments, patience=_PATIENCE, environ=environ)
    except CommandError as problem:
        return _words(problem.said) or str(problem)
    return ""


def _words(said: str) -> str:
    """What of an installer's complaint is for people: neither how it is used, nor where in its code it
    happened."""
    lines = [
        line.strip() for line in said.splitlines() if line.strip() and not line.lstrip().startswith("at ")
    ]
    telling = [line for line in lines if line.startswith("ERROR") or "Exception" in line]
    return " ".join(telling or lines[-3:])


def _present(home: Path) -> set[str]:
    folder = home / "plugins"
    return {path.name for path in folder.iterdir() if path.is_dir()} if folder.is_dir() else set()


def _sources(target: Path) -> dict[str, str]:
    try:
        return msgspec.json.decode((target / _SOURCES).read_bytes(), type=dict[str, str])
    except (OSError, msgspec.DecodeError):
        # Then each is taken again from where it should come from.
        return {}


def _remember(target: Path, sources: Mapping[str, str]) -> None:
    (target / _SOURCES).write_bytes(msgspec.json.encode(sources))
