"""A pod's /etc/resolv.conf, for names that its hosts file doesn't have.

    resolver_text(pod, node_file)      # "nameserver 192.0.2.1\\nsearch example.org\\noptions ndots:2\\n"

It is the node's own, unless ``dnsPolicy`` is ``None``: names of pods and services are in the hosts file, so
no cluster DNS is needed. Servers and search domains of ``dnsConfig`` follow the node's, its options override
them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from pilothouse.api.objects import Object

MOST_SERVERS: Final = 3
"""The C library reads no more."""


def resolver_text(pod: Object, node_file: str) -> str:
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
        lines.append(f"options {' '.join(f'{k}:{v}' if v else k for k, v in options.items())}")
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
