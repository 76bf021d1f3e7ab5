"""What a container has to say when it ends: its termination message.

last_words(folder, attempt, spec, well=False)

The file at ``terminationMessagePath`` first, 4096 bytes of it; for one that failed and wrote nothing, with
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


def termination_message(folder: ContainerDirectory, attempt: int, spec: Tree, *, well: bool) -> str:
    """Empty if there are none."""
    said = _tail(folder.last_words(attempt), MOST)
    if said or well or spec.get("terminationMessagePolicy") != "FallbackToLogsOnError":
        return said
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
        # It may be a link or a pipe instead; the end of a container is reported all the same.
        log.warning("%s can't be read: %s", path, problem.strerror)
        return ""
