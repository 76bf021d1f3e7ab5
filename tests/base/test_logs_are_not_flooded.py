from __future__ import annotations

import logging

from pilothouse.base.log_limits import MOST, PERIOD, RepeatLimit


def record(message: str, at: float, level: int = logging.ERROR) -> logging.LogRecord:
    made = logging.makeLogRecord({"name": "asyncio", "msg": message, "levelno": level})
    made.created = at
    return made


def test_what_others_can_bring_about_again_and_again_is_logged_some_times_and_counted() -> None:
    limit = RepeatLimit()
    flood = "socket.accept() out of system resource\nsocket: <socket fd={}>"
    passed = [each for each in range(5 * MOST) if limit.filter(record(flood.format(each), 10.0))]
    assert passed == list(range(MOST))
    assert limit.filter(record("another message", 10.0)), "others are not left out with it"
    later = record(flood.format(7), 10.0 + PERIOD)
    assert limit.filter(later)
    assert later.getMessage().endswith(f"({4 * MOST} more of these were left out before)")


def test_what_was_asked_for_is_all_there() -> None:
    limit = RepeatLimit()
    assert all(limit.filter(record("GET /healthz", 10.0, logging.INFO)) for _ in range(5 * MOST))


def test_messages_without_number_take_no_memory_without_number() -> None:
    limit = RepeatLimit()
    assert all(limit.filter(record(f"message {number}", 10.0)) for number in range(10_000))
    assert len(limit._windows) <= 1000
