"""A pod's /etc/hosts, updated in place while programs read it.

    lines = [*own_lines(pod, "127.70.4.1"), *name_lines(names, within=pod.namespace)]
    for write in revisions(path.read_bytes(), lines):
        os.pwrite(file, write.content, write.offset)

The file is bind-mounted into the pod, so it can't be replaced, and programs may read it at any time. So each
line is padded to a multiple of ``SLOT`` bytes and stays at its offset; a change writes whole lines, first the
new ones into free slots or at the end, then comments over those removed. Between two writes a reader sees
whole lines, every name that stays, and a changed name at its old address, at both, or at its new one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from pilothouse.api.objects import Object
from pilothouse.node.addresses.dns_names import DOMAIN, DNSName, spellings
from pilothouse.node.containers.environment import hostname

SLOT: Final = 128
HEADER: Final = "# Kubernetes-managed hosts file{}. Kept up to date by pilothouse: pods and services by name."
"""Begins like kubelet's, by which programs know that the file is not the image's."""
HEAD: Final = (
    "127.0.0.1 localhost",
    "::1 localhost ip6-localhost ip6-loopback",
)


class LineWrite(NamedTuple):
    """One write of a whole line."""

    offset: int
    content: bytes


def own_lines(pod: Object, address: str, *, of_node: Iterable[str] = ()) -> list[str]:
    """The lines about the pod's own name and aliases. ``of_node``: the node's own file."""
    header = HEADER.format(" (host network)" if pod.spec.get("hostNetwork") else "")
    nodes = [line.strip() for line in of_node if line.strip() and not line.lstrip().startswith("#")]
    lines = [header, *HEAD, *nodes]
    name = hostname(pod)
    if subdomain := pod.spec.get("subdomain"):
        lines.append(f"{address} {name}.{subdomain}.{pod.namespace}.svc.{DOMAIN} {name}")
    else:
        lines.append(f"{address} {name}")
    for alias in pod.spec.get("hostAliases") or ():
        if alias.get("hostnames"):
            # With tabs, as the kubelet writes them.
            lines.append("\t".join((str(alias.get("ip")), *alias["hostnames"])))
    return lines


def name_lines(names: Iterable[DNSName], *, within: str) -> list[str]:
    """The lines about all services and pods, in the files of a namespace's pods."""
    return [f"{name.address} {spellings(name, within=within)}" for name in sorted(names)]


def revisions(current: bytes, lines: Sequence[str]) -> Iterator[LineWrite]:
    """The writes that turn a file into these lines, in order. A file with another layout is rewritten."""
    lines = list(dict.fromkeys(lines))
    places = _places(current)
    if places is None:
        yield LineWrite(0, b"".join(_padded(line) for line in lines) or _free(SLOT))
        return
    wanted = set(lines)
    free: dict[int, list[int]] = {}
    leaving: list[tuple[int, int]] = []
    kept: set[str] = set()
    for offset, size, line in places:
        if line == "#":
            free.setdefault(size, []).append(offset)
        elif line in wanted and line not in kept:
            kept.add(line)
        else:
            leaving.append((offset, size))
    end = len(current)
    for line in lines:
        if line in kept:
            continue
        content = _padded(line)
        room = free.get(len(content))
        if room:
            yield LineWrite(room.pop(0), content)
        else:
            yield LineWrite(end, content)
            end += len(content)
    for offset, size in leaving:
        yield LineWrite(offset, _free(size))


def _places(current: bytes) -> list[tuple[int, int, str]] | None:
    """Offset, size and text of each line; None if they are not laid out in slots."""
    if not current or not current.endswith(b"\n"):
        return None
    places, offset = [], 0
    for raw in current.split(b"\n")[:-1]:
        size = len(raw) + 1
        if size % SLOT:
            return None
        places.append((offset, size, raw.decode(errors="replace").rstrip(" ")))
        offset += size
    return places


def _padded(line: str) -> bytes:
    raw = line.encode()
    size = -(-(len(raw) + 1) // SLOT) * SLOT
    return raw.ljust(size - 1) + b"\n"


def _free(size: int) -> bytes:
    return b"#".ljust(size - 1) + b"\n"
