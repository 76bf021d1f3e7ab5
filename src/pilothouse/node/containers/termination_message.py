"""The termination message of a container.

    termination_message(folder, attempt, spec, succeeded=False)

It is the end of the file at ``terminationMessagePath``; for a failed container that wrote none and has
``FallbackToLogsOnError``, the end of its log.
"""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import Final

from pilothouse.api.objects import Tree
from pilothouse.node.containers.container_index import LOG
from pilothouse.node.files.directory_handles import open_regular
from pilothouse.node.pods.pod_directories import ContainerDirectory

log = logging.getLogger(__name__)

MOST: Final = 4096
MOST_OF_LOG: Final = 2048
MOST_LINES: Final = 80


def termination_message(folder: ContainerDirectory, attempt: int, spec: Tree, *, succeeded: bool) -> str:
    """The message of one instance; empty if there is none."""
    message = _tail(folder.termination_message_file(attempt), MOST)
    if message or succeeded or spec.get("terminationMessagePolicy") != "FallbackToLogsOnError":
        return message
    lines = _tail(folder.attempt(attempt) / LOG, 2 * MOST).splitlines()[-MOST_LINES:]
    # A line of the log is: time, stream, whole or partial, text.
    texts = [line.split(" ", 3)[3] for line in lines if line.count(" ") >= 3]
    return "\n".join(texts).encode()[-MOST_OF_LOG:].decode(errors="ignore")


def _tail(path: Path, most: int) -> str:
    try:
        with open_regular(path) as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - most))
            return file.read(most).decode(errors="replace")
    except FileNotFoundError:
        return ""
    except OSError as problem:
        # The container may have replaced it by a link or a pipe; its exit is reported all the same.
        log.warning("failed to read termination message %s: %s", path, problem.strerror)
        return ""
