"""Flow control: which requests are executed when more come than the server can take.

    flow, weight = controller.admit(request, mutating=False)   # StatusError 429 when there is no seat
    try: ...
    finally: flow.leave(weight)                                # when the client has read the answer

* **Lanes.** Reads, mutations and leases have separate seats, so that a flood of one does not block another,
  least of all lease renewals. Bodies still being received have a lane of their own.
* **Priority levels.** In each lane a class of users (system, controllers, nodes, agents in pods, workloads,
  people) has some seats of its own; the rest are shared.
* **Users.** A user may hold at most twice what is left of what its class can take: one busy user gets two
  thirds, two get two fifths each, ten get 2/21 each. Service accounts of a namespace are limited together,
  and then each within that, since anybody with a namespace can create them.

There is no queue: a request without a seat gets a 429 with Retry-After. Large lists and large responses take
several seats. Seats are held until the client has read the response; a watch holds its seat until its initial
objects are sent. ``cached_reads`` takes none.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from enum import Enum

from pilothouse.apiserver.authorization.authorizer import MASTERS
from pilothouse.apiserver.endpoints.request_info import RequestInfo, locate
from pilothouse.apiserver.server.messages import Request, Response, User
from pilothouse.meta.errors import StatusError, too_many_requests

READS = 400
MUTATIONS = 200
LEAST_FOR_LEASES = 16
OBJECTS_PER_PLACE = 2000
"""A list takes one place more for each so many objects."""
HEAVIEST = 10
BODY_PER_PLACE = 256 * 1024
"""A request takes one more place for each so many bytes of its body."""
BYTES_PER_PLACE = 1024 * 1024
"""An answer takes one more place for each so many bytes that are held for it alone."""
_KEPT = 4096
_AFTER = re.compile(r"resourceVersion=[1-9]")
_LEASES = "coordination.k8s.io"
_POD = "authentication.kubernetes.io/pod-name"
_NODE = "authentication.kubernetes.io/node-uid"
_ACCOUNTS = "system:serviceaccounts"
_SYSTEM_ACCOUNTS = "system:serviceaccounts:kube-system"

Sizes = Callable[[RequestInfo, str], int]
"""How many objects a list of a place, with a query, is about to read."""


class PriorityLevel(Enum):
    """A class of users."""

    SYSTEM = "system"
    CONTROLLERS = "controllers"
    NODES = "nodes"
    AGENTS = "agents"
    WORKLOADS = "workloads"
    PEOPLE = "people"


ASSURED = {
    PriorityLevel.SYSTEM: 15,
    PriorityLevel.CONTROLLERS: 15,
    PriorityLevel.NODES: 12,
    PriorityLevel.AGENTS: 9,
    PriorityLevel.WORKLOADS: 4,
    PriorityLevel.PEOPLE: 10,
}
"""The seats of each lane, in percent, that are reserved for a class."""
_RENEWING = frozenset(
    {PriorityLevel.SYSTEM, PriorityLevel.CONTROLLERS, PriorityLevel.NODES, PriorityLevel.AGENTS}
)
"""Who shows by a lease that it is alive. Leases of others are objects like any other."""
_SYSTEM_USERS = frozenset({"system:kube-controller-manager", "system:kube-scheduler", "system:apiserver"})
_SYSTEM_GROUPS = frozenset({MASTERS, "pilothouse:apiservers"})


def class_of(user: User) -> PriorityLevel:
    """Groups are trusted, names only without a matching group: a ``system:node:x`` outside ``system:nodes``
    is an ordinary user."""
    if user.name in _SYSTEM_USERS or not _SYSTEM_GROUPS.isdisjoint(user.groups):
        return PriorityLevel.SYSTEM
    if "system:nodes" in user.groups:
        return PriorityLevel.NODES
    if _ACCOUNTS in user.groups:
        if _SYSTEM_ACCOUNTS in user.groups:
            return PriorityLevel.CONTROLLERS
        # A token of a pod on a node: any user with a namespace can create pods that run nowhere.
        return PriorityLevel.AGENTS if _POD in user.extra and _NODE in user.extra else PriorityLevel.WORKLOADS
    if user.name.startswith("pilothouse:"):
        return PriorityLevel.CONTROLLERS
    return PriorityLevel.PEOPLE


def tenant_of(user: User) -> str:
    """The namespace that a user is counted with; empty for a user on its own."""
    if _ACCOUNTS not in user.groups:
        return ""
    return next(
        (group[len(_ACCOUNTS) + 1 :] for group in user.groups if group.startswith(f"{_ACCOUNTS}:")), ""
    )


class PriorityQueue:
    """A priority level in a lane."""

    __slots__ = ("assured", "crowded", "kind", "lane", "running", "unfair", "used")

    def __init__(self, lane: SeatPool, kind: PriorityLevel, assured: int) -> None:
        self.lane = lane
        self.kind = kind
        self.assured = assured
        self.used = 0
        """Places taken."""
        self.running = 0
        """Requests that took them."""
        self.crowded = 0
        """Requests rejected because the class had no seat left."""
        self.unfair = 0
        """Requests rejected because their user had its share."""


class NamespaceFlow:
    """The requests of a namespace's service accounts in a lane, of any class."""

    __slots__ = ("used",)

    def __init__(self) -> None:
        self.used = 0


class UserFlow:
    """One user's requests in a lane."""

    __slots__ = ("band", "tenant", "used")

    def __init__(self, band: PriorityQueue, tenant: NamespaceFlow | None = None) -> None:
        self.band = band
        self.tenant = tenant
        self.used = 0

    def grow(self, weight: int, *, surely: bool = False) -> bool:
        """Take more seats for a request under way; false if its user has its share, unless forced."""
        if not (surely or self.band.lane.fits(self, weight)):
            self.band.unfair += 1
            return False
        self.band.lane.lend(self.band, weight)
        self.band.used += weight
        self._count(weight)
        return True

    def leave(self, weight: int) -> None:
        """Release seats."""
        band = self.band
        beyond = band.used - band.assured
        if beyond > 0:
            band.lane.lent -= weight if weight < beyond else beyond
        band.used -= weight
        band.running -= 1
        self._count(-weight)

    def is_fair(self, weight: int, left: int) -> bool:
        """Whether the user may take so many more of the seats left to its class."""
        tenant = self.tenant
        if tenant is not None:
            if tenant.used and tenant.used + weight > 2 * left:
                return False
            # As many as its namespace could still take, one after the other.
            left = (2 * left + 2 - tenant.used) // 3
        return not self.used or self.used + weight <= 2 * left

    def _count(self, weight: int) -> None:
        self.used += weight
        if self.tenant is not None:
            self.tenant.used += weight


class SeatPool:
    """Seats of one lane. A limit of 0 is no limit."""

    def __init__(self, name: str, limit: int) -> None:
        self.name = name
        self.limit = limit
        self.heaviest = max(1, min(HEAVIEST, limit // 10)) if limit else 1
        self.bands = {kind: PriorityQueue(self, kind, limit * part // 100) for kind, part in ASSURED.items()}
        self.open = limit - sum(band.assured for band in self.bands.values())
        """Places that are no class's own."""
        self.lent = 0
        """How many of those are taken."""
        self._flows: dict[object, UserFlow] = {}
        self._tenants: dict[str, NamespaceFlow] = {}
        self._sweep_at = _KEPT

    def enter(self, user: User, weight: int = 1) -> UserFlow | None:
        """Take seats; None if there are none for this user. ``UserFlow.leave`` releases them."""
        key: object = (user.name, user.groups) if not user.extra else _key(user)
        flow = self._flows.get(key)
        if flow is None:
            flow = self._begin(key, user)
        band = flow.band
        if self.limit:
            own = band.assured - band.used
            left = self.open - self.lent
            if own > 0:
                left += own
            if weight > left:
                band.crowded += 1
                return None
            if (flow.used or flow.tenant is not None) and not flow.is_fair(weight, left):
                band.unfair += 1
                return None
            if weight > own:
                self.lent += weight - own if own > 0 else weight
        band.used += weight
        band.running += 1
        flow.used += weight
        if flow.tenant is not None:
            flow.tenant.used += weight
        return flow

    def fits(self, flow: UserFlow, weight: int) -> bool:
        """Whether a user with seats may take more, by the rules of ``enter``."""
        left = self.open - self.lent + max(0, flow.band.assured - flow.band.used)
        return not self.limit or (weight <= left and flow.is_fair(weight, left))

    def lend(self, band: PriorityQueue, weight: int) -> None:
        """Count the shared seats among those that a class is about to take."""
        self.lent += max(0, weight - max(0, band.assured - band.used))

    def _begin(self, key: object, user: User) -> UserFlow:
        flows = self._flows
        if len(flows) >= self._sweep_at:
            self._flows = flows = {kept: flow for kept, flow in flows.items() if flow.used}
            self._tenants = {name: tenant for name, tenant in self._tenants.items() if tenant.used}
            self._sweep_at = max(_KEPT, 2 * len(flows))
        name = tenant_of(user)
        tenant = self._tenants.setdefault(name, NamespaceFlow()) if name else None
        flow = flows[key] = UserFlow(self.bands[class_of(user)], tenant)
        return flow


def _key(user: User) -> object:
    """Pods of a set share one service account, but are users of their own."""
    return user.name, user.groups, user.extra.get(_POD)


def _unknown(place: RequestInfo, query: str) -> int:
    return 0


class FlowController:
    """The seats of a server."""

    def __init__(self, reads: int = READS, mutations: int = MUTATIONS, sizes: Sizes = _unknown) -> None:
        self.reads = SeatPool("reads", reads)
        self.mutations = SeatPool("mutations", mutations)
        self.leases = SeatPool("leases", max(LEAST_FOR_LEASES, mutations // 2) if mutations else 0)
        self.bodies = SeatPool("bodies", mutations)
        self._sizes = sizes

    @property
    def lanes(self) -> tuple[SeatPool, ...]:
        return self.reads, self.mutations, self.leases, self.bodies

    def await_body(self, request: Request) -> tuple[UserFlow, int]:
        """Seats for a body that is being received, and their number. Raises 429."""
        lane = self.bodies
        length = request.headers.get("Content-Length", "")
        weight = _weight_of_body(lane, int(length)) if length.isdecimal() else lane.heaviest
        flow = lane.enter(request.user, weight)
        if flow is None:
            raise refusal_of(request.user, lane)
        return flow, weight

    def admit(self, request: Request, mutating: bool) -> tuple[UserFlow, int]:
        """Seats for a request whose body is here, and their number. Raises 429."""
        lane = self.mutations if mutating else self.reads
        weight = 1
        place = locate(request.path)
        if place.plural:
            if (
                place.plural == "leases"
                and place.group == _LEASES
                and (place.name or request.method == "POST")
                and class_of(request.user) in _RENEWING
            ):
                lane = self.leases
            elif lane.limit:
                if not place.name:
                    weight = self._weight(lane, request, place)
                if mutating:
                    weight = max(weight, _weight_of_body(lane, len(request.body)))
        flow = lane.enter(request.user, weight)
        if flow is None:
            raise refusal_of(request.user, lane)
        return flow, weight

    def _weight(self, lane: SeatPool, request: Request, place: RequestInfo) -> int:
        query = request.query
        if request.method == "POST":
            return 1
        if "watch=" in query and "sendInitialEvents=" not in query and _AFTER.search(query):
            # It begins with nothing but what has happened since.
            return 1
        return min(lane.heaviest, 1 + self._sizes(place, request.query) // OBJECTS_PER_PLACE)


def _weight_of_body(lane: SeatPool, length: int) -> int:
    return min(lane.heaviest, 1 + length // BODY_PER_PLACE)


def weight_of(answer: Response, lane: SeatPool) -> int:
    """Seats that a response takes besides those of its request."""
    body = answer.body
    held = len(body) if isinstance(body, bytes) else body.own
    return min(held // BYTES_PER_PLACE, lane.limit // 10)


def refusal_of(user: User, lane: SeatPool) -> StatusError:
    """429 for a request without a seat."""
    return too_many_requests(
        f"too many requests, please try again later: of {lane.limit} concurrent {lane.name}, those open to "
        f"{class_of(user).value} are in use, or {_sharers(user)} its share of them"
    )


def _sharers(user: User) -> str:
    name = tenant_of(user)
    return (
        f'"{user.name}" has, or the service accounts of namespace {name} have,'
        if name
        else f'"{user.name}" has'
    )
