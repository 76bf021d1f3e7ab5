"""Labels and annotations of clusters, their pods and Pilots.

An object is *of* a cluster if it carries the label of the cluster's application (``Application.cluster_label``) with the
cluster's name as its value. Access is decided by this (a pilot reads what is of its own cluster), so the label is a right given.
"""

from __future__ import annotations

from typing import Final

from pilothouse.api.navigator.clusters import GROUP

HAS_PILOT: Final = f"{GROUP}/has-pilot"
"""On pods in which a pilot runs; the value says nothing."""
POOL_NAME: Final = f"{GROUP}/elasticsearch-node-pool-name"
"""On the pods, sets, claims and Pilots of an Elasticsearch pool, the pool's name."""
ROLE: Final = f"{GROUP}/elasticsearch-role-"
"""With a role behind it, on the pods of pools that have the role; the value is ``true``."""
VERSION: Final = f"{GROUP}/elasticsearch-version"
"""An annotation: on a pool's set the version that all its nodes have reached, on a pod the one it was made for."""
TEMPLATE: Final = f"{GROUP}/template"
"""An annotation: on a pool's pods, and in the template they are made from, the hash of that template."""
CERTIFICATES: Final = f"{GROUP}/certificates"
"""An annotation: on a pool's pods, the digest of the certificates that they were made with."""
APPLICATION: Final = f"{GROUP}/application"
"""An annotation: on a pod that has a pilot and no cluster, the driver that knows its database."""
CONFIGURATION: Final = f"{GROUP}/configuration"
"""An annotation: on a Pilot, the hash of the configuration that its cluster has given it. A pilot restarts its database for no other."""
DECOMMISSIONED_FOR: Final = f"{GROUP}/decommissioned-for"
"""An annotation: on a Pilot that a controller had decommissioned, what for. A controller takes back only what has it."""


def leader_lease(cluster: str) -> str:
    """The name of the Lease by which the pilots of a cluster choose who leads."""
    return f"{cluster}-leader"


def pilot_lease(pilot: str) -> str:
    """The name of the Lease that a pilot renews for as long as it lives."""
    return f"pilot-{pilot}"
