"""Labels by which the objects of a cluster are known: its pods and Pilots, its configuration, its secrets, its leases.

    CLUSTER_NAME["ElasticsearchCluster"]     # navigator.jetstack.io/elasticsearch-cluster-name

An object is *of* a cluster if it carries the label of the cluster's kind with the cluster's name as its value. Access is
decided by this (a pilot reads what is of its own cluster), so a label here is a right given.
"""

from __future__ import annotations

from typing import Final

from pilothouse.api.navigator.clusters import GROUP

CLUSTER_NAME: Final = {
    "ElasticsearchCluster": f"{GROUP}/elasticsearch-cluster-name",
    "CassandraCluster": f"{GROUP}/cassandra-cluster-name",
}
"""By the kind of cluster, the label that carries its name."""
HAS_PILOT: Final = f"{GROUP}/has-pilot"
"""On pods in which a pilot runs; the value says nothing."""
