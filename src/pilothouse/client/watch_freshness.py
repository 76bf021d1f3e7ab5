"""Since when, and until when, everything that happened to a collection has been heard.

    heard = NOTHING.again(100.0).again(110.0)
    heard                                # since 100, until 110: nothing that happened between the two was missed

A judgement by silence needs it. An object without news for two minutes may have been unchanged for two minutes; or the server was
away, and no write could be made or reported.

A server that hangs breaks no connection: it only sends nothing for a while. A live one sends something at least once a minute, be it
a bookmark, so

* after a longer pause the stretch starts again, as after a break;
* a shorter one, in which several heartbeats would have been due, may have been either. It counts once those whose heartbeats it could
  have held back have had their time to send another. If the next is another such pause, there was nothing to send.

Only a server that hangs again and again, and lives for a moment each minute, is taken for one where nothing happens.
"""

from __future__ import annotations

import math
from typing import Final

import msgspec

LONGEST: Final = 75.0
"""Seconds for which a server that lives may say nothing: Kubernetes' and ours send a bookmark each minute, some a little late."""
USUAL: Final = 25.0
"""Seconds in which who lives has been heard of: signs of life are given every ten, and may fail once."""


class WatchFreshness(msgspec.Struct, frozen=True):
    """A stretch of time without a gap, in seconds since 1970."""

    since: float
    until: float
    """Up to when silence says something about who is silent."""
    last: float
    """When something was last heard: a change, or a bookmark that says there was none."""
    resumed: float
    """The end of the last pause that may have been the server's."""

    def again(self, now: float) -> WatchFreshness:
        """With what is heard now."""
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
