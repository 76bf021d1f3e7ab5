"""The termination message: why a container exited, for its pod's status.

Kubernetes mounts a file at ``terminationMessagePath``, by default ``/dev/termination-log``. Outside of a
container there is no such file, and none is created.
"""

from __future__ import annotations

import logging
import os
from typing import Final

PATH: Final = "/dev/termination-log"
_LONGEST: Final = 4096
"""Bytes that a kubelet reads."""

log = logging.getLogger(__name__)


def write_termination_message(message: str, path: str = PATH) -> None:
    try:
        file = os.open(path, os.O_WRONLY | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    except OSError as problem:
        log.warning("can't write %s: %s", path, problem.strerror)
        return
    with os.fdopen(file, "wb") as opened:
        opened.write(message.encode()[:_LONGEST])
