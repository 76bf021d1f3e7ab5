"""A pod's /etc/hosts, updated in place while programs read it.

    lines = [*own_lines(pod, "127.70.4.1"), *name_lines(names, within=pod.namespace)]
    for write in revisions(path.read_bytes(), lines):
        os.pwrite(file, write.content, write.offset)

The file is mounted into the pod, so it can't be replaced by another one: the pod would go on seeing the first. And it is read at
any time, by programs that know nothing of us. So each line takes up a multiple of ``SLOT`` bytes, filled up with blanks, and
stays where it is for as long as it is wanted; a change writes single lines, each with one write: first those that come, into
free places or at the end, then comments over those that go. A reader at any moment between two writes sees whole lines, every name
that stays, and a name whose address changes at the old address, at both, or at the new one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from pilothouse.api.objects import Object
from pilothouse.node.addresses.dns_names import DOMAIN, DNSName, spellings
from pilothouse.node.containers.environment import hostname

SLOT: Final = 128
HEADER: Final = "# Kubernetes-managed hosts file{}. Kept up to date by pilothouse: pods and services by name."
"""As the kubelet's begins, by which programs know that the file is not the image's."""
HEAD: Final = (
    "127.0.0.1 localhost",
    "::1 localhost ip6-localhost ip6-loopback",
)


class LineWrite(NamedTuple):
    """One write of a whole line."""

    offset: int
    content: bytes


def own_lines(pod: Object, address: str, *, of_node: Iterable[str] = ()) -> list[str]:
    """What a pod's file says of itself: its name and its aliases. ``of_node``: the lines of the node's own file."""
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
    """What the files of all pods of a namespace say of everyone."""
    return [f"{name.address} {spellings(name, within=within)}" for name in sorted(names)]


def revisions(current: bytes, lines: Sequence[str]) -> Iterator[LineWrite]:
    """The writes that make a file say these lines, in order. A file that is not of our making is begun anew."""
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
