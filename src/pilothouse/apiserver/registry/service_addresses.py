"""Allocates addresses and node ports of services.

    addresses = ServiceAddresses(cache, AddressAllocator(store, random), SERVICE_RANGE, random)
    cache.listen(addresses)
    answer = await addresses.around_write(call, write)      # complete and validate are called inside it

Addresses in use are read from the services in the cache; there is no second record. A write reserves what it
allocates until the cache shows it, so at any moment cache or reservation has it; a failed or dry-run write
leaves nothing. A namespace gets at most a quarter of the node ports. With several servers a write allocates
in its server's turn (``address_allocation``) and is retried if the turn has ended.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from ipaddress import IPv4Address, IPv4Network, ip_address
from random import Random

from pilothouse.aio.worker_thread import on_loop
from pilothouse.api.kubernetes.services import HEADLESS, has_address, has_node_ports, node_ports
from pilothouse.apiserver.discovery.catalog import ROOT
from pilothouse.apiserver.endpoints.call import ResourceRequest
from pilothouse.apiserver.registry.address_allocation import (
    AddressAllocator,
    AllocatorUnavailable,
    Thing,
    current,
    taking,
)
from pilothouse.apiserver.registry.service_ranges import NODE_PORTS
from pilothouse.apiserver.registry.strategy import Strategy
from pilothouse.apiserver.server.messages import Answer
from pilothouse.apiserver.storage import codec
from pilothouse.apiserver.storage.collection import CacheEvent, Collection
from pilothouse.apiserver.storage.watch_cache import WatchCache
from pilothouse.meta import errors
from pilothouse.meta.fields import FieldError, element
from pilothouse.meta.kind import Object

SERVICES = "services"

MOST_NODE_PORTS = len(NODE_PORTS) // 4
"""Of one namespace."""
_TURNS = 16
"""So often a write is begun again because another server gave out addresses."""


class ServiceAddresses(Strategy):
    """Allocates addresses and node ports; a listener of the cache."""

    def __init__(
        self, cache: WatchCache, book: AddressAllocator, addresses: IPv4Network, random: Random
    ) -> None:
        self._cache = cache
        self._book = book
        self._addresses = addresses
        self._random = random
        self._held: dict[str, frozenset[Thing]] = {}
        self._holders: dict[Thing, set[str]] = {}
        self._reserved: dict[Thing, str] = {}
        """With the namespace that it is for."""

    async def around_write(self, call: ResourceRequest, write: Callable[[], Awaitable[Answer]]) -> Answer:
        """Serialise a write of services: it sees every earlier one and ends once it is visible itself. May
        retry."""
        warnings = call.request.warnings
        before = len(warnings)
        for losses in range(_TURNS):
            del warnings[before:]
            with taking(self._book.turn) as mine:
                try:
                    if not await self._cache.fresh():
                        raise errors.unavailable("the addresses in use are not known yet; please try again")
                    answer = await write()
                    if not await self._cache.fresh() and mine.turn is not None:
                        self._book.give_up(mine.turn)
                    return answer
                except AllocatorUnavailable:
                    pass
                finally:
                    for thing in mine.things:
                        self._reserved.pop(thing, None)
            await self._book.take_over(losses)
        raise errors.unavailable("other servers are giving out addresses too; please try again")

    def complete(self, new: Object, old: Object | None) -> None:
        """Allocate the address and node ports of a service, where its type has them and none are set."""
        spec = new["spec"]
        if not has_address(spec):
            return
        if problem := self._too_many_ports(new, old):
            # Before anything is allocated: a refused write must not block others.
            raise _none_left(new, problem)
        if not spec.get("clusterIP"):
            spec["clusterIP"] = next(iter(spec.get("clusterIPs") or ()), "") or self._free_address(new)
        spec["clusterIPs"] = spec.get("clusterIPs") or [spec["clusterIP"]]
        spec.setdefault("ipFamilies", ["IPv4"])
        spec.setdefault("ipFamilyPolicy", "SingleStack")
        if has_node_ports(spec):
            requested = node_ports(spec)
            for port in spec.get("ports") or []:
                if not port.get("nodePort"):
                    port["nodePort"] = self._free_port(new, requested)

    def validate(self, new: Object, old: Object | None) -> Iterator[FieldError]:
        """Requested addresses that can't be allocated. The others are reserved."""
        yield from on_loop(self._unavailable, new, old)

    def _unavailable(self, new: Object, old: Object | None) -> list[FieldError]:
        spec, kept = new["spec"], _things((old or {}).get("spec") or {})
        namespace = _namespace(new)
        return [*self._check_address(spec, kept, namespace), *self._check_ports(spec, kept, namespace)]

    def _too_many_ports(self, new: Object, old: Object | None) -> FieldError | None:
        spec = new["spec"]
        wanted = len(spec.get("ports") or ()) if has_node_ports(spec) else len(node_ports(spec))
        if wanted <= len(node_ports((old or {}).get("spec") or {})):
            return None
        namespace, mine = _namespace(new), current().things
        others = f"{ROOT}{SERVICES}/{namespace}/"
        own = others + str(new["metadata"].get("name") or "")
        held = sum(
            isinstance(thing, int)
            for key, things in self._held.items()
            if key.startswith(others) and key != own
            for thing in things
        )
        held += sum(
            isinstance(thing, int) and of == namespace and thing not in mine
            for thing, of in self._reserved.items()
        )
        if held + wanted <= MOST_NODE_PORTS:
            return None
        return FieldError.forbidden(
            "spec.ports",
            f"with {wanted} node ports of this service the namespace would have {held + wanted}, and one may "
            f"have {MOST_NODE_PORTS} of the cluster's {len(NODE_PORTS)}",
        )

    def _check_address(self, spec: Object, kept: frozenset[Thing], namespace: str) -> Iterator[FieldError]:
        addresses = spec.get("clusterIPs") or []
        if len(addresses) > 1:
            detail = "may only hold one value: services here have one address, of IPv4"
            yield FieldError.invalid("spec.clusterIPs", addresses, detail)
            return
        for address in addresses:
            if address == HEADLESS or address in kept:
                continue
            try:
                requested = IPv4Address(address)
            except ValueError:
                if _is_address(address):
                    # Also as ::ffff:a.b.c.d, for which nodes would listen at that IPv4 address.
                    detail = "must be an IPv4 address: services here have one address, of IPv4"
                    yield FieldError.invalid("spec.clusterIPs", addresses, detail)
                continue  # That it is no address at all is told already.
            ends = (self._addresses.network_address, self._addresses.broadcast_address)
            if requested not in self._addresses or requested in ends:
                detail = f"failed to allocate IP {address}: the provided IP is not in the valid range. "
                detail += f"The range of valid IPs is {self._addresses}"
                yield FieldError.invalid("spec.clusterIPs", addresses, detail)
            elif not self._reserve(address, namespace):
                detail = f"failed to allocate IP {address}: provided IP is already allocated"
                yield FieldError.invalid("spec.clusterIPs", addresses, detail)

    def _check_ports(self, spec: Object, kept: frozenset[Thing], namespace: str) -> Iterator[FieldError]:
        for index, port in enumerate(spec.get("ports") or []):
            requested = port.get("nodePort")
            if not requested or requested in kept:
                continue
            path = f"{element('spec.ports', index)}.nodePort"
            if requested not in NODE_PORTS:
                detail = "provided port is not in the valid range. The range of valid ports is 30000-32767"
                yield FieldError.invalid(path, requested, detail)
            elif not self._reserve(requested, namespace):
                yield FieldError.invalid(path, requested, "provided port is already allocated")

    def _free_address(self, new: Object) -> str:
        last = self._addresses.num_addresses - 2  # The first is the network's, the last everyone's.
        for number in self._from_anywhere(range(1, last + 1)):
            address = str(self._addresses[number])
            if self._reserve(address, _namespace(new), new=True):
                return address
        detail = f"failed to allocate a serviceIP: all addresses of {self._addresses} belong to services"
        raise _none_left(new, FieldError.forbidden("spec.clusterIP", detail))

    def _free_port(self, new: Object, requested: frozenset[int]) -> int:
        for port in self._from_anywhere(NODE_PORTS):
            if port not in requested and self._reserve(port, _namespace(new), new=True):
                return port
        detail = "failed to allocate a nodePort: all of 30000-32767 belong to services"
        raise _none_left(new, FieldError.forbidden("spec.ports", detail))

    def _from_anywhere(self, numbers: Sequence[int]) -> Iterator[int]:
        """All numbers, from a random one on: mostly the first is free, and a single free one is found."""
        start = self._random.randrange(len(numbers))
        return (numbers[(start + step) % len(numbers)] for step in range(len(numbers)))

    def _reserve(self, thing: Thing, namespace: str, *, new: bool = False) -> bool:
        """Reserve something for this write, if it is free. ``new``: fail if the write already has it."""
        mine = current().things
        if thing in mine:
            return not new
        if thing in self._reserved or thing in self._holders:
            return False
        mine.add(thing)
        self._reserved[thing] = namespace
        return True

    # What is in use

    def happened(self, collection: Collection, event: CacheEvent) -> None:
        if collection.path == SERVICES:
            self._learn(event.key, event.after.value if event.after is not None else None)

    def advanced(self) -> None: ...

    def broken(self) -> None:
        self._held.clear()
        self._holders.clear()
        for item in self._cache.collection(SERVICES).items.values():
            self._learn(item.key, item.value)

    def _learn(self, key: str, value: bytes | None) -> None:
        for thing in self._held.pop(key, ()):
            self._holders[thing].discard(key)
            if not self._holders[thing]:
                del self._holders[thing]
        things = _things(codec.decode(value).get("spec") or {}) if value is not None else frozenset()
        if things:
            self._held[key] = things
        for thing in things:
            self._holders.setdefault(thing, set()).add(key)


def _namespace(service: Object) -> str:
    return str(service["metadata"].get("namespace") or "")


def _none_left(service: Object, problem: FieldError) -> errors.StatusError:
    return errors.invalid("Service", "", str(service["metadata"].get("name") or ""), [problem])


def _things(spec: Object) -> frozenset[Thing]:
    addresses = (each for each in spec.get("clusterIPs") or () if each != HEADLESS)
    return frozenset((*addresses, *node_ports(spec)))


def _is_address(text: object) -> bool:
    try:
        ip_address(str(text))
    except ValueError:
        return False
    return True
