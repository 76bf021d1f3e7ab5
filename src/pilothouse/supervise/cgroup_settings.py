"""Cgroup limits and usage, as the files of cgroup v1 and v2. No I/O.

    settings_v2(Limits(memory=512 * 2**20, cpu=1.5))
    # (Setting("cpu", "cpu.max", "150000 100000"), Setting("memory", "memory.max", "536870912"), ...)

All limits are always written, absent ones as "no limit": a limit that was removed must not stay.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec import Struct

PERIOD = 100_000
"""Microseconds of a CPU quota's period."""
_LEAST_QUOTA = 1_000
_LEAST_SHARES, _MOST_SHARES = 2, 262_144
_NO_LIMIT_V1 = "-1"
UNTHROTTLED = (("cpu.cfs_quota_us", _NO_LIMIT_V1), ("cpu.max", "max"))
"""Removes a group's CPU quota, in v1 and v2."""


class DeviceThrottle(Struct, frozen=True):
    """Limits on one block device, by its numbers as in "7:0". None is no limit."""

    device: str
    read_bytes: int | None = None
    """Per second, as all four."""
    write_bytes: int | None = None
    read_operations: int | None = None
    write_operations: int | None = None


class Limits(Struct, frozen=True):
    """The limits of a group. None is no limit."""

    cpu_request: float | None = None
    """CPUs that it gets under contention."""
    cpu: float | None = None
    """CPUs that it never exceeds."""
    memory_request: int | None = None
    memory: int | None = None
    pids: int | None = None
    throttles: tuple[DeviceThrottle, ...] = ()


class Usage(Struct, frozen=True):
    """The usage of a group; None where the machine does not count it."""

    cpu_seconds: float | None = None
    memory_bytes: int | None = None
    working_set_bytes: int | None = None
    """Without the inactive part of the page cache."""
    processes: int | None = None
    oom_kills: int | None = None
    read_bytes: int | None = None
    write_bytes: int | None = None


class Setting(Struct, frozen=True):
    """A file of a controller, and its content."""

    controller: str
    file: str
    value: str
    limit: str = ""
    """Its name in Limits; empty if it was not requested, and a failure is not reported."""


def settings_v1(limits: Limits) -> tuple[Setting, ...]:
    """The settings, in the order in which they are to be written."""
    memory = _NO_LIMIT_V1 if limits.memory is None else str(limits.memory)
    sockets = "" if limits.memory is None else "memory of TCP connections"
    quota = _NO_LIMIT_V1 if limits.cpu is None else str(_quota(limits.cpu))
    # Memory with swap must never be less than memory, whether the limit is raised or lowered.
    with_swap = Setting("memory", "memory.memsw.limit_in_bytes", memory)
    return (
        Setting("cpu", "cpu.shares", str(_shares(limits.cpu_request)), _asked("cpu_request", limits)),
        Setting("cpu", "cpu.cfs_period_us", str(PERIOD)),
        Setting("cpu", "cpu.cfs_quota_us", quota, _asked("cpu", limits)),
        with_swap,
        Setting("memory", "memory.limit_in_bytes", memory, _asked("memory", limits)),
        with_swap,
        # Counted apart in v1, and only where there is a limit.
        Setting("memory", "memory.kmem.tcp.limit_in_bytes", memory, sockets),
        Setting("memory", "memory.soft_limit_in_bytes", str(limits.memory_request or _NO_LIMIT_V1)),
        Setting("pids", "pids.max", _or_max(limits.pids), _asked("pids", limits)),
        *(
            Setting("blkio", f"blkio.throttle.{file}", f"{each.device} {value or 0}", _device(each, value))
            for each in limits.throttles
            for file, value in (
                ("read_bps_device", each.read_bytes),
                ("write_bps_device", each.write_bytes),
                ("read_iops_device", each.read_operations),
                ("write_iops_device", each.write_operations),
            )
        ),
    )


def settings_v2(limits: Limits) -> tuple[Setting, ...]:
    """The settings, in the order in which they are to be written."""
    quota = "max" if limits.cpu is None else str(_quota(limits.cpu))
    return (
        Setting("cpu", "cpu.weight", str(_weight(limits.cpu_request)), _asked("cpu_request", limits)),
        Setting("cpu", "cpu.max", f"{quota} {PERIOD}", _asked("cpu", limits)),
        Setting("memory", "memory.max", _or_max(limits.memory), _asked("memory", limits)),
        Setting("memory", "memory.swap.max", "max" if limits.memory is None else "0"),
        Setting("memory", "memory.oom.group", "0" if limits.memory is None else "1"),
        Setting("memory", "memory.low", str(limits.memory_request or 0)),
        Setting("pids", "pids.max", _or_max(limits.pids), _asked("pids", limits)),
        *(
            Setting(
                "io",
                "io.max",
                f"{each.device} rbps={_or_max(each.read_bytes)} wbps={_or_max(each.write_bytes)} "
                f"riops={_or_max(each.read_operations)} wiops={_or_max(each.write_operations)}",
                f"I/O of device {each.device}",
            )
            for each in limits.throttles
        ),
    )


def usage_v1(files: Mapping[str, str]) -> Usage:
    """Parse the files that exist."""
    memory = _number(files.get("memory.usage_in_bytes"))
    idle = _keyed(files.get("memory.stat")).get("total_inactive_file", 0)
    nanoseconds = _number(files.get("cpuacct.usage"))
    read, written = _transferred_v1(files.get("blkio.throttle.io_service_bytes"))
    return Usage(
        cpu_seconds=None if nanoseconds is None else nanoseconds / 1e9,
        memory_bytes=memory,
        working_set_bytes=None if memory is None else max(memory - idle, 0),
        processes=_number(files.get("pids.current")),
        oom_kills=_keyed(files.get("memory.oom_control")).get("oom_kill"),
        read_bytes=read,
        write_bytes=written,
    )


def usage_v2(files: Mapping[str, str]) -> Usage:
    """Parse the files that exist."""
    memory = _number(files.get("memory.current"))
    idle = _keyed(files.get("memory.stat")).get("inactive_file", 0)
    microseconds = _keyed(files.get("cpu.stat")).get("usage_usec")
    read, written = _transferred_v2(files.get("io.stat"))
    return Usage(
        cpu_seconds=None if microseconds is None else microseconds / 1e6,
        memory_bytes=memory,
        working_set_bytes=None if memory is None else max(memory - idle, 0),
        processes=_number(files.get("pids.current")),
        oom_kills=_keyed(files.get("memory.events")).get("oom_kill"),
        read_bytes=read,
        write_bytes=written,
    )


USAGE_FILES_V1 = (
    "cpuacct.usage",
    "memory.usage_in_bytes",
    "memory.stat",
    "memory.oom_control",
    "pids.current",
    "blkio.throttle.io_service_bytes",
)
USAGE_FILES_V2 = ("cpu.stat", "memory.current", "memory.stat", "memory.events", "pids.current", "io.stat")


def _shares(request: float | None) -> int:
    """As in Kubernetes: 1024 a CPU, and the minimum without a request."""
    return min(max(int((request or 0) * 1024), _LEAST_SHARES), _MOST_SHARES)


def _weight(request: float | None) -> int:
    """v1's 2 to 262144 onto v2's 1 to 10000, as in Kubernetes."""
    return 1 + (_shares(request) - _LEAST_SHARES) * 9999 // (_MOST_SHARES - _LEAST_SHARES)


def _quota(processors: float) -> int:
    return max(int(processors * PERIOD), _LEAST_QUOTA)


def _or_max(value: int | None) -> str:
    return "max" if value is None else str(value)


def _asked(name: str, limits: Limits) -> str:
    return "" if getattr(limits, name) is None else name


def _device(throttle: DeviceThrottle, value: int | None) -> str:
    return "" if value is None else f"I/O of device {throttle.device}"


def _number(text: str | None) -> int | None:
    return int(text) if text and text.strip().isdigit() else None


def _keyed(text: str | None) -> dict[str, int]:
    pairs = (line.split() for line in (text or "").splitlines())
    return {pair[0]: int(pair[1]) for pair in pairs if len(pair) == 2 and pair[1].isdigit()}


def _transferred_v1(text: str | None) -> tuple[int | None, int | None]:
    if text is None:
        return None, None
    lines = [line.split() for line in text.splitlines()]
    return _sum(lines, "Read"), _sum(lines, "Write")


def _sum(lines: Iterable[list[str]], kind: str) -> int:
    return sum(int(line[2]) for line in lines if len(line) == 3 and line[1] == kind)


def _transferred_v2(text: str | None) -> tuple[int | None, int | None]:
    if text is None:
        return None, None
    words = [word.partition("=") for line in text.splitlines() for word in line.split()[1:]]
    read = sum(int(value) for key, _, value in words if key == "rbytes")
    return read, sum(int(value) for key, _, value in words if key == "wbytes")
