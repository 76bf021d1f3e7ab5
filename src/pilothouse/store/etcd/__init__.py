"""A store in an etcd cluster, shared by API servers, with gRPC and HTTP/2 of our own.

    store = await EtcdStore.open(["https://10.0.0.1:2379", "https://10.0.0.2:2379"], tls=Tls(ca=...))

Without I/O: ``http2_frames``, ``hpack``, ``huffman``, ``grpc_messages``, ``grpc_status``. ``http2_streams``
has calls and streams, ``channel`` a connection, ``member_endpoint`` a member, ``cluster_connection`` the
cluster.
"""

from pilothouse.store.etcd.member_endpoint import Tls
from pilothouse.store.etcd.store import EtcdStore

__all__ = ["EtcdStore", "Tls"]
