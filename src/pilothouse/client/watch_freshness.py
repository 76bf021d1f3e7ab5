"""The interval in which every change of a collection has been received.

    heard = NOTHING.again(100.0).again(110.0)
    heard                                # since 100, until 110: nothing in between was missed

Needed to judge by silence: an object without news may be unchanged, or the server was down. A server that
hangs breaks no connection, but a live one sends at least a bookmark each minute, so

* after a longer pause the interval starts again, as after a disconnect;
* a shorter pause that held several heartbeats may have been either. It counts once senders had time for
  another heartbeat; if another such pause follows, there was nothing to send.

Only a server that hangs repeatedly and lives for a moment each minute is mistaken for an idle one.
"""

from __future__ import annotations

import math
from typing import Final

import msgspec

LONGEST: Final = 75.0
"""Seconds for which a live server may be silent: it sends a bookmark each minute, perhaps a little late."""
USUAL: Final = 25.0
"""Seconds within which a live sender has been heard: heartbeats come every ten, and one may fail."""


class WatchFreshness(msgspec.Struct, frozen=True):
    """An interval without a gap, in seconds since 1970."""

    since: float
    until: float
    """Until when silence is evidence about a sender."""
    last: float
    """When something was last heard: a change, or a bookmark that says there was none."""
    resumed: float
    """The end of the last pause that may have been the server's."""

    def again(self, now: float) -> WatchFreshness:
        """Extended by something received now."""
        pause = now - self.last
        if not 0 <= pause <= LONGEST:
            return WatchFreshness(now, now, now, now)
        if pause > USUAL:
            return WatchFreshness(self.since, self.last, now, now)
        return WatchFreshness(
            self.since, now if now - self.resumed >= USUAL else self.until, now, self.resumed
        )


NOTHING: Final = WatchFreshness(math.inf, -math.inf, -math.inf, -math.inf)
EVERYTHING: Final = WatchFreshness(-math.inf, math.inf, math.inf, -math.inf)
