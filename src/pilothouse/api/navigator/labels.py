"""Labels and annotations of clusters, their pods and Pilots.

An object is *of* a cluster if it has the label ``Application.cluster_label`` with the cluster's name. The
label grants access: a pilot reads what is of its own cluster.
"""

from __future__ import annotations

from typing import Final

from pilothouse.api.navigator.clusters import GROUP

HAS_PILOT: Final = f"{GROUP}/has-pilot"
"""On pods with a pilot; any value."""
POOL_NAME: Final = f"{GROUP}/elasticsearch-node-pool-name"
"""On pods, sets, claims and Pilots of an Elasticsearch pool: the pool's name."""
ROLE: Final = f"{GROUP}/elasticsearch-role-"
"""With a role appended, on pods of pools with that role; the value is ``true``."""
VERSION: Final = f"{GROUP}/elasticsearch-version"
"""Annotation: the version that all nodes of a pool's set have reached, or that a pod was made for."""
TEMPLATE: Final = f"{GROUP}/template"
"""Annotation: on a pool's pods and their template, the template's hash."""
CERTIFICATES: Final = f"{GROUP}/certificates"
"""Annotation: on a pool's pods, the digest of the certificates that they were made with."""
APPLICATION: Final = f"{GROUP}/application"
"""Annotation: on a pod with a pilot and no cluster, the driver of its database."""
CONFIGURATION: Final = f"{GROUP}/configuration"
"""Annotation: on a Pilot, the hash of its cluster's configuration; only a new hash means a restart."""
DECOMMISSIONED_FOR: Final = f"{GROUP}/decommissioned-for"
"""Annotation: on a Pilot that a controller decommissioned, why. Controllers revert only those."""


def leader_lease(cluster: str) -> str:
    """The name of the Lease by which the pilots of a cluster elect a leader."""
    return f"{cluster}-leader"


def pilot_lease(pilot: str) -> str:
    """The name of the Lease that a pilot renews while it runs."""
    return f"pilot-{pilot}"
