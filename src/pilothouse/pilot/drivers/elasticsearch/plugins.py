"""Plugins of a node: from a file, an URL, or the image itself; by Elasticsearch's own installer.

    statuses = await install(copy_of(image, version, root), image, wanted, environ)

They are installed into a copy of the image (see ``image_copy``), which also records where each came from: one
from another source replaces it. The installer checks archives and versions; its messages are reported.
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
    """Install plugins in the copy at ``target``; returns their status. Raises ``HookFailed`` with it."""
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
    """Remove what is not asked for, or has another source. Returns the sources of those that stay."""
    sources = _sources(target)
    for name in sorted(_present(target)):
        elsewhere = name in asked and sources.get(name, "") != asked[name]
        if elsewhere or (name not in asked and name not in own):
            await _run_installer(target, ("remove", name), environ)
            sources.pop(name, None)
            _remember(target, sources)
    return sources


def _taken_from_image(image: Path, target: Path, name: str) -> str:
    """Copy a plugin that one from elsewhere had replaced. Returns what went wrong; empty if nothing did."""
    place = Path("plugins") / name
    try:
        # A draft in the folder of plugins would count as one.
        image_copy.put(image / place, target / place, target / f"{name}.new")
    except OSError as problem:
        return f"{image / place} can't be copied to {target / place}: {problem}"
    return ""


async def _installed(target: Path, name: str, url: str, environ: Mapping[str, str]) -> str:
    """What went wrong; empty if nothing did."""
    before = _present(target)
    if problem := await _run_installer(target, ("install", "--batch", url or name), environ):
        return problem
    came = _present(target) - before
    if name in came:
        return ""
    for other in came:
        await _run_installer(target, ("remove", other), environ)
    held = f"the plugin {', '.join(sorted(came))}" if came else "no plugin"
    return f"what is at {url or name} contains {held}: use that name in spec.plugins"


async def _run_installer(target: Path, arguments: Sequence[str], environ: Mapping[str, str]) -> str:
    """Returns its error message; empty after a success."""
    program = str(target / "bin" / "elasticsearch-plugin")
    try:
        await run(program, *arguments, patience=_PATIENCE, environ=environ)
    except CommandError as problem:
        return _words(problem.said) or str(problem)
    return ""


def _words(said: str) -> str:
    """The lines of an installer's error that are for people, without usage and stack trace."""
    lines = [line.strip() for line in said.splitlines()]
    lines = [line for line in lines if line and not line.startswith("at ")]
    telling = [line for line in lines if line.startswith("ERROR") or "Exception" in line]
    return " ".join(telling or lines[-3:])


def _present(home: Path) -> set[str]:
    folder = home / "plugins"
    return {path.name for path in folder.iterdir() if path.is_dir()} if folder.is_dir() else set()


def _sources(target: Path) -> dict[str, str]:
    try:
        return msgspec.json.decode((target / _SOURCES).read_bytes(), type=dict[str, str])
    except (OSError, msgspec.DecodeError):
        # Then each is installed again from its source.
        return {}


def _remember(target: Path, sources: Mapping[str, str]) -> None:
    (target / _SOURCES).write_bytes(msgspec.json.encode(sources))
