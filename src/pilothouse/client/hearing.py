"""Since when, and until when, everything that happened to a collection has been heard.

    Heard(since=100.0, until=160.0)      # nothing that happened between the two was missed

Who judges by silence needs it. An object of which nothing new came for two minutes may have stood still for two minutes; or the server
was away, nobody could write, and nobody could have told.
"""

from __future__ import annotations

import math
from typing import Final

import msgspec


class Heard(msgspec.Struct, frozen=True):
    """A stretch of time without a gap, in seconds since 1970."""

    since: float
    until: float
    """When something was last heard: a change, or a bookmark that says there was none."""


NOTHING: Final = Heard(math.inf, -math.inf)
EVERYTHING: Final = Heard(-math.inf, math.inf)
