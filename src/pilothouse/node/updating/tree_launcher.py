"""Starts the current version of a program that is installed as a tree, and returns to the kept one by itself.

    ROOT/bin/pilothouse node --data /var/lib/pilothouse      # runs ROOT/versions/…/bin/pilothouse node …

This file is installed as ``ROOT/bin/pilothouse`` and runs by itself, with the standard library alone: it has
to work when the version that it starts does not. While a version is on trial, each start of a service is
counted on disk before it begins. The update agent ends the trial once that version has proved to work. A
start that comes after ``MOST_STARTS`` others switches ``ROOT/current`` back, and writes down why for the
agent.

    ROOT/current          link to the tree that is started: versions/v0.2.0-9f86d081884c
    ROOT/trial.json       the tree on trial, the one to return to, and the starts of each service
    ROOT/returned.json    the tree that was given up, and why
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

VERSIONS = "versions"
CURRENT = "current"
PROGRAM = os.path.join("bin", "pilothouse")
MOST_STARTS = 3
SERVICES = ("apiserver", "controller-manager", "node", "up")
"""The commands whose starts count: they run until they are stopped, and are started again when they end."""
_TRIAL = "trial.json"
_RETURNED = "returned.json"
_LOCK = ".launcher.lock"


def begin_trial(root: str, tree: str, back: str) -> None:
    """Count the starts of a tree from now on; ``back`` is the tree to return to. Raises OSError."""
    with _locked(root):
        _remove(root, _RETURNED)
        _write(root, _TRIAL, {"tree": tree, "back": back, "starts": {}})


def end_trial(root: str) -> None:
    """Count no longer. Raises OSError."""
    with _locked(root):
        _remove(root, _TRIAL)


def given_up(root: str) -> tuple[str, str]:
    """The tree that the launcher has returned from since the last trial began, and why; or empty."""
    found = _read(root, _RETURNED)
    return str(found.get("tree", "")), str(found.get("reason", ""))


def linked(root: str, name: str) -> str:
    """The tree that a link of the root leads to; empty if there is none."""
    try:
        folder, tree = os.path.split(os.readlink(os.path.join(root, name)))
    except OSError:
        return ""
    return tree if folder == VERSIONS else ""


def link(root: str, name: str, tree: str) -> None:
    """Have a link of the root lead to a tree, in one step. Raises OSError."""
    draft = os.path.join(root, f".{name}.new")
    with contextlib.suppress(FileNotFoundError):
        os.unlink(draft)
    os.symlink(os.path.join(VERSIONS, tree), draft)
    os.replace(draft, os.path.join(root, name))
    _sync(root)


def choose(root: str, service: str) -> str:
    """The tree to start, after this start is counted.

    ``service`` is empty for what does not count: such commands are of the version that has proved to work.
    """
    tree, trial = linked(root, CURRENT), _read(root, _TRIAL)
    if trial.get("tree") != tree:
        return tree
    if not service:
        return str(trial["back"])
    try:
        with _locked(root):
            return _counted(root, service)
    except OSError as problem:
        print(f"pilothouse: this start is not counted: {problem}", file=sys.stderr)
        return tree


def _counted(root: str, service: str) -> str:
    tree = linked(root, CURRENT)
    trial = _read(root, _TRIAL)
    if trial.get("tree") != tree:
        return tree
    starts = trial.get("starts") or {}
    before = int(starts.get(service, 0))
    if before >= MOST_STARTS:
        why = f"{service} was started {before} times, and did not prove to work"
        return _return(root, tree, trial, why)
    _write(root, _TRIAL, {**trial, "starts": {**starts, service: before + 1}})
    return tree


def give_up(root: str, tree: str, why: str) -> str:
    """Return from a tree that can't be started; empty if it is not on trial."""
    with _locked(root):
        trial = _read(root, _TRIAL)
        return _return(root, tree, trial, why) if trial.get("tree") == tree else ""


def _return(root: str, tree: str, trial: dict[str, Any], why: str) -> str:
    back = str(trial["back"])
    print(f"pilothouse: {tree} is given up for {back}: {why}", file=sys.stderr)
    # In this order: whatever is interrupted is repeated by the next start.
    _write(root, _RETURNED, {"tree": tree, "reason": why})
    link(root, CURRENT, back)
    _remove(root, _TRIAL)
    return back


@contextlib.contextmanager
def _locked(root: str) -> Iterator[None]:
    with open(os.path.join(root, _LOCK), "a", opener=_private) as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _private(path: str, flags: int) -> int:
    """A file that other users can't open: one who can read it can lock it, and then no service starts."""
    handle = os.open(path, flags, 0o600)
    os.fchmod(handle, 0o600)
    return handle


def _read(root: str, name: str) -> dict[str, Any]:
    try:
        with open(os.path.join(root, name), "rb") as file:
            found = json.load(file)
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _write(root: str, name: str, content: dict[str, Any]) -> None:
    draft = os.path.join(root, f".{name}.new")
    with open(draft, "w") as file:
        # Whatever the umask: the file names the tree to return to.
        os.fchmod(file.fileno(), 0o644)
        json.dump(content, file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(draft, os.path.join(root, name))
    _sync(root)


def _remove(root: str, name: str) -> None:
    try:
        os.unlink(os.path.join(root, name))
    except FileNotFoundError:
        return
    _sync(root)


def _sync(folder: str) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def main() -> None:
    root = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
    arguments = sys.argv[1:]
    command = next((each for each in arguments if not each.startswith("-")), "")
    tree = choose(root, command if command in SERVICES else "")
    while tree:
        program = os.path.join(root, VERSIONS, tree, PROGRAM)
        try:
            os.execv(program, [program, *arguments])
        except OSError as problem:
            why = f"{program} can't be started: {problem.strerror}"
        try:
            tree = give_up(root, tree, why)
        except OSError as problem:
            why, tree = f"{why}; {problem}", ""
        if not tree:
            sys.exit(f"pilothouse: {why}")
    sys.exit(f"pilothouse: {os.path.join(root, CURRENT)} leads to no version")


if __name__ == "__main__":
    main()
