"""Which names there are, and where they lead.

    names = names_of(services, slices)
    names                        # {DNSName("shop", "db", "127.96.3.7"), DNSName("shop", "db-0.members", "127.70.4.1"), …}
    spellings(name, within="shop")   # "db-0.members.shop.svc.cluster.local db-0.members.shop.svc db-0.members.shop db-0.members"

A service with an address is found at it. A headless one is found at its ready endpoints, all of them; and an endpoint that has
a host name (a pod with ``hostname`` and ``subdomain``, as those of a stateful set) is found by that as well. Pods in the service's own
namespace may leave the namespace out. This is what Kubernetes' DNS answers for addresses.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from pilothouse.api.objects import Object

DOMAIN: Final = "cluster.local"
HEADLESS: Final = "None"
OF_SERVICE: Final = "kubernetes.io/service-name"


class DNSName(NamedTuple):
    """A name within a namespace, and an address that it leads to."""

    namespace: str
    relative: str
    address: str


def names_of(services: Iterable[Object], slices: Iterable[Object]) -> frozenset[DNSName]:
    """All names. A service that is about to go is still found; its endpoints are what counts."""
    names: set[DNSName] = set()
    headless: set[tuple[str, str]] = set()
    for service in services:
        address = service.spec.get("clusterIP") or ""
        if address == HEADLESS:
            headless.add(service.key)
        elif address and service.spec.get("type") != "ExternalName":
            names.add(DNSName(service.namespace, service.name, address))
    for each in slices:
        service_name = each.labels.get(OF_SERVICE, "")
        if (each.namespace, service_name) not in headless or each.get("addressType") == "FQDN":
            continue
        for endpoint in each.get("endpoints") or ():
            if (endpoint.get("conditions") or {}).get("ready") is False:
                continue
            for address in endpoint.get("addresses") or ():
                names.add(DNSName(each.namespace, service_name, address))
                if hostname := endpoint.get("hostname"):
                    names.add(DNSName(each.namespace, f"{hostname}.{service_name}", address))
    return frozenset(names)


def spellings(name: DNSName, *, within: str) -> str:
    """The ways to spell a name for a pod of a namespace, the longest first."""
    full = f"{name.relative}.{name.namespace}"
    spellings = [f"{full}.svc.{DOMAIN}", f"{full}.svc", full]
    # A service called localhost must not take anybody's own machine away.
    if name.namespace == within and name.relative != "localhost":
        spellings.append(name.relative)
    return " ".join(spellings)
