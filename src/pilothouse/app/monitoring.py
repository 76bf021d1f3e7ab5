"""What is seen of a server from outside, put together: who gets how many places, and what is counted."""

from __future__ import annotations

from pilothouse.apiserver.core import Core
from pilothouse.apiserver.shares import Shares
from pilothouse.apiserver.sizing import Sizing
from pilothouse.app.options import ApiServerOptions


def shares(options: ApiServerOptions, core: Core) -> Shares:
    """The places that the options allow, with lists weighed by what is in the cache."""
    return Shares(
        options.max_requests_in_flight,
        options.max_mutating_requests_in_flight,
        Sizing(core.catalog, core.cache).size_of,
    )
