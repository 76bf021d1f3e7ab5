"""The I/O limits of a volume: the parameters of a VolumeAttributesClass.

    throttle({"iops": "500", "throughput": "20Mi"}, "7:0", size)    # 500 reads and writes, 20 MiB each way

All are for a second. ``readIops``, ``writeIops``, ``readThroughput`` and ``writeThroughput`` set one side.
Portworx' ``io_throttle_*`` give limits that grow with the volume: a factor for each GiB, and bounds. Limits
apply to the volume's own block device, so directories have none.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
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
_FACTORS: Final = {
    "io_throttle_iops_scale_factor": (
        "io_throttle_min_iops",
        {"read_operations": "io_throttle_rd_iops", "write_operations": "io_throttle_wr_iops"},
    ),
    "io_throttle_bw_scale_factor": (
        "io_throttle_min_bw",
        {"read_bytes": "io_throttle_rd_bw", "write_bytes": "io_throttle_wr_bw"},
    ),
}
"""The factor of each kind of limit, its lower bound, and its upper bound for each field."""
_BANDWIDTH: Final = "io_throttle_bw_scale_factor"
_SCALED: Final = tuple(
    name for factor, (least, most) in _FACTORS.items() for name in (factor, least, *most.values())
)
LIMITS: Final = (*_PARAMETERS, *_SCALED)
"""The parameters that are limits."""
_GI: Final = 1 << 30
_MI: Final = 1 << 20


class ThrottleError(ValueError):
    """Invalid parameters."""


def throttle(parameters: Mapping[str, str], device: str, size: int) -> DeviceThrottle:
    """The limits on a device, ``major:minor``, of a volume of this size in bytes. Ignores parameters of other
    names. Raises ThrottleError."""
    found = _scaled(parameters, size)
    # Parameters of one side override those of both.
    for name in sorted(_PARAMETERS.keys() & parameters, key=lambda name: -len(_PARAMETERS[name])):
        try:
            amount = parse_quantity(parameters[name]).to_int()
        except QuantityError as problem:
            raise ThrottleError(f"parameters.{name}: {problem}") from None
        if amount <= 0:
            raise ThrottleError(f"parameters.{name}: {parameters[name]!r} must be more than 0")
        found |= dict.fromkeys(_PARAMETERS[name], amount)
    return DeviceThrottle(device, **found)


def _scaled(parameters: Mapping[str, str], size: int) -> dict[str, int]:
    """The limits of ``io_throttle_*``: a factor times the volume's GiB, within the bounds."""
    found: dict[str, int] = {}
    for name, (least_name, most_names) in _FACTORS.items():
        factor, least = _number(parameters, name), _number(parameters, least_name)
        is_bandwidth = name == _BANDWIDTH
        if is_bandwidth and factor is not None and factor > 1:
            raise ThrottleError(f"parameters.{name}: {parameters[name]!r} must be at most 1 (GiB/s a GiB)")
        if least is not None and factor is None:
            raise ThrottleError(f"parameters.{least_name} needs {name}, whose result it bounds")
        for field, most_name in most_names.items():
            most = _number(parameters, most_name)
            if factor is None and most is None:
                continue
            if least is not None and most is not None and least > most:
                raise ThrottleError(f"parameters.{most_name}: {most} is less than {least_name}, {least}")
            # Bandwidth is in MB/s, of which a GiB/s has 1024.
            raw = most if factor is None else factor * size / _GI * (1024 if is_bandwidth else 1)
            bounded = max(raw or Decimal(0), least or Decimal(0))
            limit = int(bounded if most is None else min(bounded, most))
            found[field] = max(limit, 1) * (_MI if is_bandwidth else 1)
    return found


def _number(parameters: Mapping[str, str], name: str) -> Decimal | None:
    text = parameters.get(name)
    if text is None:
        return None
    try:
        number = Decimal(text)
    except InvalidOperation:
        number = Decimal(0)
    if not number.is_finite() or number <= 0:
        raise ThrottleError(f"parameters.{name}: {text!r} must be a number, more than 0")
    return number
