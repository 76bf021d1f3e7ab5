"""Names the pods whose containers use an image.

describe_users([4711, 4712])        # "pod shop/web-0; delete it first"
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from pilothouse.node.pods.pod_directories import PodDirectory
from pilothouse.node.volumes.mount_holders import pod_folder_of

_SHOWN: Final = 5


def describe_users(pids: Iterable[int]) -> str:
    """The pods that the processes belong to, and what to do; processes by number if they belong to no pod."""
    pods: set[str] = set()
    others: list[str] = []
    for pid in pids:
        folder = pod_folder_of(pid)
        pod = PodDirectory(folder).read_pod() if folder is not None else None
        if pod is not None:
            pods.add(f"{pod.namespace}/{pod.name}")
        else:
            others.append(str(pid))
    if pods:
        return f"{_listed('pod', sorted(pods))}; delete {'it' if len(pods) == 1 else 'them'} first"
    return f"{_listed('process', others, 'processes')}; end {'it' if len(others) == 1 else 'them'} first"


def _listed(noun: str, names: Sequence[str], plural: str = "") -> str:
    """Such as ``pod a/x`` or ``pods a/x, a/y and 3 more``."""
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return f"{noun if len(names) == 1 else plural or f'{noun}s'} {', '.join(names[:_SHOWN])}{more}"
