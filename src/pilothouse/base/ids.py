"""Identifiers that nobody has to coordinate."""

from __future__ import annotations

import os
from typing import Final

_VARIANT: Final = "89ab"


def new_uid() -> str:
    """A random UUID, version 4, as text. Several times faster than going through ``uuid.UUID``."""
    digits = os.urandom(16).hex()
    return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-{_VARIANT[int(digits[16], 16) & 3]}{digits[17:20]}-{digits[20:]}"
