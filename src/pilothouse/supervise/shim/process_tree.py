"""The descendants of a process, and the members of its session, at one moment."""

from __future__ import annotations

import _signal
import os


def children(pid: int) -> list[int]:
    """The children of a process, including zombies."""
    try:
        found: list[int] = []
        for thread in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{thread}/children") as file:
                found += [int(each) for each in file.read().split()]
        return found
    except OSError:  # It has ended.
        return []


def kill_below(pid: int) -> None:
    """Kill all descendants of a process, but not itself."""
    for child in children(pid):
        below = children(child)
        _kill(child)
        for each in below:
            kill_below(each)
            _kill(each)


def kill_session(leader: int, ticks: int) -> None:
    """Kill what is left of the session that a process began at that time.

    While a member lives, the session's number is not reused as a pid. So if a process with it began at
    another time, it has a session of its own, and none of ours is left.
    """
    members = []
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                with open(f"/proc/{entry}/stat", "rb") as file:
                    stat = file.read()
            except OSError:
                continue
            fields = stat[stat.rindex(b")") + 2 :].split()
            if int(fields[3]) == leader:
                if int(entry) == leader and int(fields[19]) != ticks:
                    return
                members.append(int(entry))
    for pid in members:
        _kill(pid)


def _kill(pid: int) -> None:
    try:
        os.kill(pid, _signal.SIGKILL)
    except ProcessLookupError:
        pass
