"""Rate limits for repeated log records.

A client can flood the log through messages that are logged for each connection or request: a listener without
free file descriptors logs thousands of tracebacks a second. So ``MOST`` records of one message from one
logger pass in ``PERIOD`` seconds, and the first one after that says how many were dropped.
"""

from __future__ import annotations

import logging
from typing import Final

MOST: Final = 100
PERIOD: Final = 60.0
"""Seconds."""
_MOST_KEYS: Final = 1000
_KEY_LENGTH: Final = 100


class _Window:
    def __init__(self, since: float) -> None:
        self.since = since
        self.passed = 0
        self.dropped = 0


class RepeatLimit(logging.Filter):
    """Limits warnings and errors; info and debug always pass."""

    def __init__(self) -> None:
        super().__init__()
        self._windows: dict[tuple[str, str], _Window] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        if record.levelno < logging.WARNING:
            return True
        # asyncio's messages have the object concerned on further lines.
        key = (record.name, str(record.msg).partition("\n")[0][:_KEY_LENGTH])
        window = self._windows.get(key)
        if window is None or not 0 <= record.created - window.since < PERIOD:
            if len(self._windows) >= _MOST_KEYS:
                self._windows.clear()
            dropped = window.dropped if window is not None else 0
            window = self._windows[key] = _Window(record.created)
            if dropped:
                record.msg = f"{record.getMessage()} ({dropped} more of these were left out before)"
                record.args = ()
        if window.passed >= MOST:
            window.dropped += 1
            return False
        window.passed += 1
        return True
