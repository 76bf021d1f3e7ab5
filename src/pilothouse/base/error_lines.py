"""The lines of a program's output that say why it ended.

    error_lines(["INFO started", "IllegalArgumentException: unknown setting [a]", "\\tat org.example.Main"])
    # "IllegalArgumentException: unknown setting [a]"

From the last line that reports an error on, without stack frames and log prefixes; without such a line, the
last line. A log record in JSON is read as its message.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any, Final

LONGEST: Final = 400
"""The most characters of the result."""
_MOST_LINES: Final = 4
_LONGEST_LINE: Final = 4000
_FRAME: Final = re.compile(r"\s+at \S|\s*\.\.\. \d+ (more|common frames omitted)|\s+(File \"|\^)|\s*$")
"""A line of a stack trace, of Java and of Python, or an empty one."""
_REPORT: Final = re.compile(
    r"\b(ERROR|FATAL|CRITICAL|SEVERE|PANIC)\b|(Exception|Error)\b"
    r"|\b([Ee]rror|[Ff]atal|[Pp]anic|[Ff]ailed|[Cc]annot|[Cc]an't|[Uu]nable|[Rr]efused)\b"
)
_QUIET: Final = re.compile(r"\b(INFO|DEBUG|TRACE|WARN|WARNING)\b")
"""The level of a record that reports no error, whatever words it has."""
_PREFIX: Final = re.compile(r"(\[[^\]]{0,100}\]\s*){2,8}")
"""Such as ``[2026-01-01T00:00:00,000][ERROR][o.e.b.Bootstrap ] [node-0] ``."""
_CAUSE: Final = "Caused by: "


def is_stack_frame(line: str) -> bool:
    """True for a line of a stack trace and an empty line, which would crowd out the message."""
    return _FRAME.match(line) is not None


def error_lines(lines: Iterable[str], *, noise: tuple[str, ...] = ()) -> str:
    """Joined by ``; ``, at most ``LONGEST`` characters. Lines that contain one of ``noise`` are ignored."""
    said = [_message(line[:_LONGEST_LINE]) for line in lines if not is_stack_frame(line)]
    said = [line for line in said if line and not any(each in line for each in noise)]
    errors = [number for number, line in enumerate(said) if _REPORT.search(line) and not _is_quiet(line)]
    chosen = said[errors[-1] :][:_MOST_LINES] if errors else said[-1:]
    text = "; ".join(_trimmed(line) for line in chosen if not (errors and _is_quiet(line)))
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"


def _is_quiet(line: str) -> bool:
    return _QUIET.search(line[:60]) is not None


def _trimmed(line: str) -> str:
    prefix = _PREFIX.match(line)
    return (line[prefix.end() :] if prefix else line).strip().removeprefix(_CAUSE)


def _message(line: str) -> str:
    """A record in JSON as its level and message; any other line as it is."""
    if not line.startswith("{"):
        return line
    try:
        record: Any = json.loads(line)
    except (ValueError, RecursionError):
        return line
    if not isinstance(record, dict):
        return line
    level = record.get("log.level") or record.get("level") or ""
    trace = record.get("stacktrace")
    cause = record.get("error.message") or (trace[0] if isinstance(trace, list) and trace else "")
    text = ": ".join(str(part) for part in (record.get("message"), cause) if part)
    return f"[{level}][] {text}" if text else line
