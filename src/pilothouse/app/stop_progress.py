"""The progress of a stop: which pods still run, and how long they may take."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

from pilothouse.app.pod_shutdown import STOP_SECONDS
from pilothouse.node.pods.running_pods import RunningPod, running_pods

AGAIN_SECONDS: Final = 15.0
"""An unchanged report is repeated after this time."""
NEWS_SECONDS: Final = 2.0
"""Changes are not reported more often than this."""
LOOK_SECONDS: Final = 0.5
"""The disk is not read more often than this."""
_SHOWN: Final = 5


class StopProgress:
    """The progress of one stop. ``hint`` says how to speed it up."""

    def __init__(self, node: Path, say: Callable[[str], None], *, hint: str = "") -> None:
        self._node = node
        self._say = say
        self._hint = hint
        self._reported: list[RunningPod] = []
        self._at = float("-inf")
        self._since: float | None = None
        self._looked = float("-inf")
        self._pods: list[RunningPod] = []

    def look(self, now: float) -> bool:
        """Report the pods that still run, if that has changed. Returns whether any does."""
        if self._since is None:
            self._since = now
        if now - self._looked >= LOOK_SECONDS:
            self._looked, self._pods = now, running_pods(self._node)
        pods = self._pods
        quiet = now - self._at
        if pods and (quiet >= AGAIN_SECONDS or (pods != self._reported and quiet >= NEWS_SECONDS)):
            self._say(_text(pods, now - self._since) + ("" if self._reported else self._hint))
            self._reported, self._at = pods, now
        return bool(pods)


def _text(pods: list[RunningPod], waited: float) -> str:
    shown = [f"{pod.name} (up to {max(0.0, _longest(pod) - waited):.0f} s)" for pod in pods[:_SHOWN]]
    if len(pods) > _SHOWN:
        longest = max(_longest(pod) for pod in pods[_SHOWN:]) - waited
        shown.append(f"and {len(pods) - _SHOWN} more (up to {max(0.0, longest):.0f} s)")
    number = "1 pod" if len(pods) == 1 else f"{len(pods)} pods"
    return f"waiting for {number} to stop: {', '.join(shown)}"


def _longest(pod: RunningPod) -> float:
    """Its own grace period, limited by that of the stop."""
    return min(pod.grace, STOP_SECONDS)
