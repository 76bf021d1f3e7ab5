"""The DNS names of services and pods, with their addresses, as Kubernetes' DNS resolves them.

    names = names_of(services, slices)  # {DNSName("shop", "db", "127.96.3.7"), …}
    spellings(name, within="shop")      # "db-0.members.shop.svc.cluster.local db-0.members.shop.svc …"

A service with a cluster IP resolves to it. A headless one resolves to its ready endpoints, and each endpoint
with a host name (a pod with ``hostname`` and ``subdomain``) also resolves by that.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from pilothouse.api.objects import Object

DOMAIN: Final = "cluster.local"
HEADLESS: Final = "None"
OF_SERVICE: Final = "kubernetes.io/service-name"


class DNSName(NamedTuple):
    """A name within a namespace, and an address that it resolves to."""

    namespace: str
    relative: str
    address: str


def names_of(services: Iterable[Object], slices: Iterable[Object]) -> frozenset[DNSName]:
    """All names. A service that is being deleted still counts."""
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
    # A service called localhost must not hide the pod's own loopback.
    if name.namespace == within and name.relative != "localhost":
        spellings.append(name.relative)
    return " ".join(spellings)
