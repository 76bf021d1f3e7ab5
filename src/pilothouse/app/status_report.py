"""What ``pilothouse status`` shows: the processes of an ``up``, and the nodes and pods that its server knows.

    overview = look(Path("/var/lib/pilothouse"), now)
    overview.roles, overview.nodes, overview.pods, overview.problem

It reads the report that ``up`` writes, the kernel's figures of the processes, and the API.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pilothouse.app import up_state
from pilothouse.app.data_folder import DataFolder
from pilothouse.app.up_state import UpReport
from pilothouse.base.duration import human_age
from pilothouse.base.rfc3339 import parse_time
from pilothouse.client.access import AccessError
from pilothouse.client.kubeconfig import load
from pilothouse.client.single_request import RequestFailed, send_request

PATIENCE = 3.0

Row = tuple[str, ...]


@dataclass(frozen=True)
class ClusterOverview:
    """The state at one moment, in rows for tables."""

    headline: str
    roles: tuple[Row, ...] = ()
    """Name, state, process, age, restarts, memory, and how the process before it ended."""
    nodes: tuple[Row, ...] = ()
    """Name, status, pods, age."""
    pods: tuple[Row, ...] = ()
    """Namespace, name, ready, status, restarts, age, node; those with problems first."""
    problem: str = ""
    """Why the server did not answer."""
    up: bool = True


def look(path: Path, now: float) -> ClusterOverview:
    """Read everything. Raises ``StartError`` if the folder belongs to another user."""
    report, holder = up_state.running(path), up_state.holder(path)
    if holder is not None and holder.process is not None and not holder.lives:
        return ClusterOverview(
            f"`pilothouse up` on {path} was killed; its processes are stopping, its pods keep running. "
            f"`pilothouse up --data {path}` adopts them, `pilothouse down --data {path}` stops them",
            up=False,
        )
    if report is None and holder is not None:
        return ClusterOverview(f"starting or stopping on {path}")
    if report is None:
        return ClusterOverview(
            f"nothing is running on {path}; `pilothouse up --data {path}` starts it", up=False
        )
    headline = f"{report.url or 'starting'}, up for {human_age(now - report.since)}"
    roles = _roles(report, now)
    try:
        pods = _items(path, "/api/v1/pods")
        nodes = _items(path, "/api/v1/nodes")
    except (RequestFailed, AccessError) as problem:
        return ClusterOverview(headline, roles, problem=str(problem))
    return ClusterOverview(headline, roles, tuple(_node(each, pods, now) for each in nodes), _pods(pods, now))


def _items(path: Path, what: str) -> list[dict[str, Any]]:
    access = load(DataFolder(path).admin_kubeconfig)
    with send_request(access, what, {}, agent="pilothouse-status", patience=PATIENCE) as answer:
        items: list[dict[str, Any]] = json.loads(b"".join(answer.pieces()))["items"]
        return items


def _roles(report: UpReport, now: float) -> tuple[Row, ...]:
    found: list[Row] = [
        ("up", "running", str(report.pid), human_age(now - report.since), "0", memory(report.pid), "")
    ]
    for role in report.roles:
        alive = role.state in ("starting", "running", "hung", "stopping")
        age = human_age(max(0.0, now - role.since)) if alive else ""
        pid = str(role.pid) if alive else ""
        used = memory(role.pid) if alive else ""
        found.append((role.name, role.state, pid, age, str(max(0, role.starts - 1)), used, role.last_end))
    return tuple(found)


def memory(pid: int) -> str:
    """The memory of a process, with its share of shared pages (PSS)."""
    try:
        account = Path(f"/proc/{pid}/smaps_rollup").read_text()
    except OSError:
        return ""
    for line in account.splitlines():
        if line.startswith("Pss:"):
            return f"{int(line.split()[1]) // 1024} MiB"
    return ""


def _node(node: dict[str, Any], pods: list[dict[str, Any]], now: float) -> Row:
    name = node["metadata"]["name"]
    conditions = {each["type"]: each["status"] for each in node.get("status", {}).get("conditions") or ()}
    state = {"True": "Ready", "False": "NotReady"}.get(conditions.get("Ready", ""), "Unknown")
    if node.get("spec", {}).get("unschedulable"):
        state += ",SchedulingDisabled"
    here = sum(1 for pod in pods if pod.get("spec", {}).get("nodeName") == name)
    return name, state, str(here), _age(node, now)


def _pods(pods: list[dict[str, Any]], now: float) -> tuple[Row, ...]:
    rows = [(_is_healthy(pod), _pod(pod, now)) for pod in pods]
    return tuple(row for _, row in sorted(rows))


def _is_healthy(pod: dict[str, Any]) -> bool:
    status = pod.get("status", {})
    containers = status.get("containerStatuses") or ()
    running = status.get("phase") == "Running" and all(each.get("ready") for each in containers)
    return running or status.get("phase") == "Succeeded"


def _pod(pod: dict[str, Any], now: float) -> Row:
    status, meta = pod.get("status", {}), pod["metadata"]
    containers = status.get("containerStatuses") or []
    ready = sum(1 for each in containers if each.get("ready"))
    restarts = sum(each.get("restartCount", 0) for each in containers)
    waiting = [
        each["state"]["waiting"].get("reason", "")
        for each in containers
        if "waiting" in each.get("state", {})
    ]
    state = "Terminating" if meta.get("deletionTimestamp") else next(filter(None, waiting), "")
    return (
        meta["namespace"],
        meta["name"],
        f"{ready}/{len(pod['spec']['containers'])}",
        state or status.get("reason") or status.get("phase", ""),
        str(restarts),
        _age(pod, now),
        pod["spec"].get("nodeName", ""),
    )


def _age(obj: dict[str, Any], now: float) -> str:
    return human_age(max(0.0, now - parse_time(obj["metadata"]["creationTimestamp"])))
