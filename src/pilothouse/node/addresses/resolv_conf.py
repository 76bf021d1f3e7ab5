"""A pod's /etc/resolv.conf, for names that its hosts file doesn't have.

    resolver_text(pod, node_file)      # "nameserver 192.0.2.1\\nsearch example.org\\noptions ndots:2\\n"

That is as on the node, whatever ``dnsPolicy`` says but ``None``: the names of pods and services are in the hosts file, which is looked into
first, so nobody has to ask a name server of the cluster. ``dnsConfig`` is added: its name servers and search domains behind
those of the node, its options over them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from pilothouse.api.objects import Object

MOST_SERVERS: Final = 3
"""The C library reads no more."""


def resolver_text(pod: Object, node_file: str) -> str:
    """The content of the file, made of the node's own."""
    servers: list[str] = []
    searches: list[str] = []
    options: dict[str, str] = {}
    if pod.spec.get("dnsPolicy") != "None":
        servers, searches, options = _parsed(node_file)
    config = pod.spec.get("dnsConfig") or {}
    servers = _once([*servers, *(config.get("nameservers") or ())])[:MOST_SERVERS]
    searches = _once([*searches, *(config.get("searches") or ())])
    for option in config.get("options") or ():
        options[option.get("name", "")] = option.get("value") or ""
    lines = [f"nameserver {server}" for server in servers]
    if searches:
        lines.append(f"search {' '.join(searches)}")
    if options:
        said = (f"{name}:{value}" if value else name for name, value in options.items())
        lines.append(f"options {' '.join(said)}")
    return "".join(f"{line}\n" for line in lines)


def _parsed(text: str) -> tuple[list[str], list[str], dict[str, str]]:
    servers: list[str] = []
    searches: list[str] = []
    options: dict[str, str] = {}
    for line in text.splitlines():
        word, *rest = line.split() or [""]
        match word:
            case "nameserver":
                servers += rest[:1]
            case "search" | "domain":
                searches = rest
            case "options":
                for each in rest:
                    name, _, value = each.partition(":")
                    options[name] = value
    return servers, searches, options


def _once(words: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(words))
