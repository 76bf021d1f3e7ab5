"""APIs of Kubernetes that a version no longer serves, and what becomes of their objects.

    for api in removed_by("v1.32.4+k0s.0", served):     # those that are served today
        ...

An update past the removal would make objects unreachable that have no successor to be read through.
"""

from __future__ import annotations

from collections.abc import Container, Iterator
from typing import Final

import msgspec

from pilothouse.api.k0s.release_versions import release_order


class RemovedApi(msgspec.Struct, frozen=True):
    """A kind in one version of its group, and the first version of Kubernetes without it."""

    group: str
    version: str
    kind: str
    plural: str
    removed_in: str
    successor: str = ""
    """The version through which its objects stay readable; empty if there is none."""

    def warning(self, count: int) -> str:
        """What is said when such objects exist."""
        return (
            f"{self.plural}.{self.group} {self.version} has been removed in Kubernetes {self.removed_in}, "
            f"but there are {count} such resources in the cluster"
        )


_FLOW_CONTROL: Final = "flowcontrol.apiserver.k8s.io"
REMOVED: Final = (
    RemovedApi(_FLOW_CONTROL, "v1beta2", "FlowSchema", "flowschemas", "v1.29.0", "v1beta3"),
    RemovedApi(
        _FLOW_CONTROL, "v1beta2", "PriorityLevelConfiguration", "prioritylevelconfigurations", "v1.29.0", "v1"
    ),
    RemovedApi(_FLOW_CONTROL, "v1beta3", "FlowSchema", "flowschemas", "v1.32.0", "v1"),
    RemovedApi(
        _FLOW_CONTROL, "v1beta3", "PriorityLevelConfiguration", "prioritylevelconfigurations", "v1.32.0", "v1"
    ),
    # For tests of fleets: a kind that nobody else has, and a version that never comes.
    RemovedApi("k0s.k0sproject.example.com", "v1beta1", "RemovedCRD", "removedcrds", "v99.99.99"),
)


def removed_by(version: str, served: Container[tuple[str, str, str]]) -> Iterator[RemovedApi]:
    """The APIs that a version has no more, of those served: group, version and kind. Raises VersionError."""
    target = release_order(version)
    for api in REMOVED:
        if (api.group, api.version, api.kind) in served and release_order(api.removed_in) <= target:
            yield api
