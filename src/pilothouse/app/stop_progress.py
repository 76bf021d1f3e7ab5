"""What a stop waits for, in words: which pods have not ended yet, and how long they may take.

progress = StopProgress(folder.node, say)
progress.look(time.monotonic())             # from time to time; says something when there is news
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

from pilothouse.app.pod_shutdown import STOP_SECONDS
from pilothouse.node.pods.running_pods import RunningPod, running_pods

AGAIN_SECONDS: Final = 15.0
"""After so long without news it is said again."""
NEWS_SECONDS: Final = 2.0
"""News are not told more often than this."""
LOOK_SECONDS: Final = 0.5
"""The disk is not read more often than this."""
_SHOWN: Final = 5


class StopProgress:
    """Of one stop. ``hint`` says what somebody in a hurry can do."""

    def __init__(self, node: Path, say: Callable[[str], None], *, hint: str = "") -> None:
        self._node = node
        self._say = say
        self._hint = hint
        self._told: list[RunningPod] = []
        self._at = float("-inf")
        self._since: float | None = None
        self._looked = float("-inf")
        self._pods: list[RunningPod] = []

    def look(self, now: float) -> bool:
        """Say what is waited for, if there is news. Returns whether any pod runs."""
        if self._since is None:
            self._since = now
        if now - self._looked >= LOOK_SECONDS:
            self._looked, self._pods = now, running_pods(self._node)
        pods = self._pods
        quiet = now - self._at
        if pods and (quiet >= AGAIN_SECONDS or (pods != self._told and quiet >= NEWS_SECONDS)):
            self._say(_in_words(pods, now - self._since) + ("" if self._told else self._hint))
            self._told, self._at = pods, now
        return bool(pods)


def _in_words(pods: list[RunningPod], waited: float) -> str:
    shown = [f"{pod.name} (up to {max(0.0, _longest(pod) - waited):.0f} s)" for pod in pods[:_SHOWN]]
    if len(pods) > _SHOWN:
        longest = max(_longest(pod) for pod in pods[_SHOWN:]) - waited
        shown.append(f"and {len(pods) - _SHOWN} more (up to {max(0.0, longest):.0f} s)")
    number = "1 pod" if len(pods) == 1 else f"{len(pods)} pods"
    return f"waiting for {number} to end: {', '.join(shown)}"


def _longest(pod: RunningPod) -> float:
    """Its own grace, or what a machine that stops allows."""
    return min(pod.grace, STOP_SECONDS)
