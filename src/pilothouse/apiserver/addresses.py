"""Addresses and node ports of services: given out at random from a range, skipping those in use.

What is in use is read off the services themselves, so there is no second record that could disagree with them. Two
instances on one store could give out the same address within one moment; with 65,000 to choose from at random they
practically don't.
"""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import IPv4Address, IPv4Network
from random import Random

from pilothouse.apiserver import codec
from pilothouse.apiserver.cache import Cache
from pilothouse.meta import errors
from pilothouse.meta.fields import FieldError, element
from pilothouse.meta.kind import Object

SERVICE_RANGE = IPv4Network("127.96.0.0/16")
"""Loopback, as pods on one machine have it; each address in it answers without being configured."""
NODE_PORTS = range(30000, 32768)
_HEADLESS = "None"
_TRIES = 64


class ServiceAddresses:
    """Completes services with what they are reached at."""

    def __init__(self, cache: Cache, addresses: IPv4Network, random: Random) -> None:
        self._cache = cache
        self._addresses = addresses
        self._random = random
        self._recent: dict[str, None] = {}

    def complete(self, new: Object, old: Object | None) -> None:
        """Give a service its address, if its type has one, and its node ports; on update it keeps what it has."""
        if old is not None:
            _keep(new["spec"], old.get("spec") or {})
        self._complete(new, old)

    def validate(self, new: Object, old: Object | None) -> Iterator[FieldError]:
        """What was asked for and can't be had: a second address, a node port outside the range or in use."""
        spec = new["spec"]
        addresses = spec.get("clusterIPs") or []
        if len(addresses) > 1:
            detail = "may only hold one value: services here have one address, of IPv4"
            yield FieldError.invalid("spec.clusterIPs", addresses, detail)
        if spec.get("type") not in ("NodePort", "LoadBalancer"):
            return
        kept = {port.get("nodePort") for port in ((old or {}).get("spec") or {}).get("ports") or []}
        used = self._node_ports() - kept
        for index, port in enumerate(spec.get("ports") or []):
            asked = port.get("nodePort")
            path = f"{element('spec.ports', index)}.nodePort"
            if asked and asked not in NODE_PORTS:
                detail = "provided port is not in the valid range. The range of valid ports is 30000-32767"
                yield FieldError.invalid(path, asked, detail)
            elif asked in used:
                yield FieldError.invalid(path, asked, "provided port is already allocated")

    def _complete(self, service: Object, old: Object | None) -> None:
        spec = service["spec"]
        if spec.get("type") == "ExternalName":
            for field in ("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy", "internalTrafficPolicy"):
                spec.pop(field, None)
            return
        asked = spec.get("clusterIP") or next(iter(spec.get("clusterIPs") or ()), "")
        kept = old is not None and asked and asked == (old.get("spec") or {}).get("clusterIP")
        if asked and asked != _HEADLESS and not kept:
            self._check(service, asked)
        spec["clusterIP"] = asked or self._free_address()
        spec["clusterIPs"] = spec.get("clusterIPs") or [spec["clusterIP"]]
        spec.setdefault("ipFamilies", ["IPv4"])
        spec.setdefault("ipFamilyPolicy", "SingleStack")
        spec.setdefault("internalTrafficPolicy", "Cluster")
        if spec.get("type") in ("NodePort", "LoadBalancer"):
            spec.setdefault("externalTrafficPolicy", "Cluster")
            self._give_ports(spec["ports"] if spec.get("ports") else [])

    def _check(self, service: Object, asked: str) -> None:
        detail = ""
        try:
            inside = IPv4Address(asked) in self._addresses
        except ValueError:
            detail = "must be a valid IPv4 address, None or empty"
        else:
            if not inside:
                detail = (
                    f"the provided IP ({asked}) is not in the valid range; the range is {self._addresses}"
                )
            elif asked in set(self._used()):
                detail = "failed to allocate IP: provided IP is already allocated"
        if detail:
            problem = FieldError.invalid("spec.clusterIPs", [asked], detail)
            raise errors.invalid("Service", "", service["metadata"].get("name", ""), [problem])

    def _free_address(self) -> str:
        used = set(self._used())
        for _ in range(_TRIES):
            address = str(self._addresses[self._random.randrange(1, self._addresses.num_addresses - 1)])
            if address not in used and address not in self._recent:
                self._remember(address)
                return address
        raise errors.internal(f"no free address was found in {self._addresses}")

    def _give_ports(self, ports: list[Object]) -> None:
        used = self._node_ports()
        for port in ports:
            tries = 0
            while not port.get("nodePort"):
                chosen = self._random.choice(NODE_PORTS)
                tries += 1
                if chosen not in used and str(chosen) not in self._recent:
                    port["nodePort"] = chosen
                    self._remember(str(chosen))
                elif tries > _TRIES:
                    raise errors.internal("no free node port was found in 30000-32767")

    def _remember(self, given: str) -> None:
        """What was just given out may not have reached the cache yet."""
        self._recent[given] = None
        if len(self._recent) > 1024:
            del self._recent[next(iter(self._recent))]

    def _node_ports(self) -> set[int]:
        ports = (port.get("nodePort") for spec in self._specs() for port in spec.get("ports") or [])
        return {port for port in ports if port}

    def _used(self) -> Iterator[str]:
        for spec in self._specs():
            yield from spec.get("clusterIPs") or ()

    def _specs(self) -> Iterator[Object]:
        for item in self._cache.collection("services").items.values():
            yield codec.decode(item.value).get("spec") or {}


def _keep(spec: Object, before: Object) -> None:
    """Take over the address and node ports that an update leaves out."""
    if spec.get("type") != "ExternalName" and not spec.get("clusterIP") and before.get("clusterIP"):
        spec["clusterIP"] = before["clusterIP"]
        if before.get("clusterIPs"):
            spec["clusterIPs"] = before["clusterIPs"]
    if spec.get("type") not in ("NodePort", "LoadBalancer"):
        return
    former = {
        (port.get("port"), port.get("protocol")): port.get("nodePort") for port in before.get("ports") or []
    }
    for port in spec.get("ports") or []:
        given = former.get((port.get("port"), port.get("protocol")))
        if given:
            port.setdefault("nodePort", given)
