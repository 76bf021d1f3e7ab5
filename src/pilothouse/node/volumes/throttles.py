"""The I/O limits of a volume: the parameters of a VolumeAttributesClass.

    throttle({"iops": "500", "throughput": "20Mi"}, "7:0")  # 500 reads and writes, 20 MiB each way a second

``readIops``, ``writeIops``, ``readThroughput`` and ``writeThroughput`` set one side. Limits apply to the
volume's own block device, so directories have none.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pilothouse.base.quantity import QuantityError, parse_quantity
from pilothouse.supervise.cgroup_settings import DeviceThrottle

_PARAMETERS: Final = {
    "iops": ("read_operations", "write_operations"),
    "throughput": ("read_bytes", "write_bytes"),
    "readIops": ("read_operations",),
    "writeIops": ("write_operations",),
    "readThroughput": ("read_bytes",),
    "writeThroughput": ("write_bytes",),
}


class ThrottleError(ValueError):
    """Invalid parameters."""


def throttle(parameters: Mapping[str, str], device: str) -> DeviceThrottle:
    """The limits on a device, ``major:minor``. Raises ThrottleError."""
    found: dict[str, int] = {}
    # Parameters of one side override those of both.
    for name in sorted(parameters, key=lambda name: len(_PARAMETERS.get(name, ())), reverse=True):
        if name not in _PARAMETERS:
            raise ThrottleError(f"parameters.{name} is not known; there are {', '.join(_PARAMETERS)}")
        try:
            amount = parse_quantity(parameters[name]).to_int()
        except QuantityError as problem:
            raise ThrottleError(f"parameters.{name}: {problem}") from None
        if amount <= 0:
            raise ThrottleError(f"parameters.{name}: {parameters[name]!r} must be more than 0")
        found |= dict.fromkeys(_PARAMETERS[name], amount)
    return DeviceThrottle(device, **found)
