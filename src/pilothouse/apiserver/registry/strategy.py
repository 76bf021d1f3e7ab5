"""How the server treats a special kind.

    class Services(Strategy):
        def complete(self, new, old): ...                   # give out an address
        async def around_write(self, call, write): ...      # hold the reservation until the write is visible

A ``Kind`` has the rules that are functions of its objects. A ``Strategy`` adds what depends on the request,
on other objects or on the server, like kube-apiserver's ``RESTCreateStrategy``. The base class serves all
other kinds. The write pipeline calls the methods in the order below.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Final

from pilothouse.meta.fields import FieldError
from pilothouse.meta.kind import Object

if TYPE_CHECKING:
    from pilothouse.apiserver.endpoints.call import ResourceRequest
    from pilothouse.apiserver.server.messages import Answer

Handler = Callable[["ResourceRequest"], Awaitable["Answer"]]


class Strategy:
    """The hooks of a kind; here, what they do for most kinds."""

    subresources: Mapping[str, Handler] = {}
    """Who answers at the kind's own subresources; ``status``, ``scale`` and the like need no entry."""
    status_subresources: tuple[str, ...] = ("status",)
    """The subresources that write ``status`` and nothing else."""
    rechecks_watches: bool = False
    """Whether a confined user's watch is authorized again before each event."""

    async def around_write(self, call: ResourceRequest, write: Callable[[], Awaitable[Answer]]) -> Answer:
        """Answer a write of any verb. ``write`` makes it; it may be called again if nothing was stored."""
        return await write()

    def prepare_create(self, call: ResourceRequest, obj: Object) -> None:
        """Set on an object that is created what follows from the request."""

    def prepare_status(self, call: ResourceRequest, sent: Object, live: Object, now: float) -> Object:
        """What to take of an object that is written to one of ``status_subresources``."""
        return sent

    def complete(self, new: Object, old: Object | None) -> None:
        """Add what only the server can (an address, a finalizer), given the stored object on update.

        Called after managed fields are recorded, so no client owns these fields.
        """

    def record(self, call: ResourceRequest, new: Object, old: Object | None) -> None:
        """Record who makes the request, where the kind has fields for that; called after ``complete``."""

    def authorize(self, call: ResourceRequest, new: Object, old: Object | None) -> None:
        """Raise for a write that the user may not make by what it contains."""

    def validate(self, new: Object, old: Object | None) -> Iterable[FieldError]:
        """Problems that the kind can't see by itself."""
        return ()

    def prepare_delete(self, obj: Object) -> None:
        """Set what an object says while it is terminating."""


STANDARD: Final = Strategy()
