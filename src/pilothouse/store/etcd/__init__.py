"""A store in an etcd cluster, shared by any number of API servers. The only door to protobuf.

    store = await EtcdStore.open(["https://10.0.0.1:2379", "https://10.0.0.2:2379"], tls=Tls(ca=..., cert=..., key=...))

Its gRPC is our own, on HTTP/2 of our own: ``http2_frames``, ``hpack`` (with ``huffman``), ``grpc_messages`` and
``grpc_status`` are the wire, without I/O; ``http2_streams`` are calls and streams, ``channel`` a connection, ``member`` a
member, ``cluster_connection`` the cluster.
"""

from pilothouse.store.etcd.member import Tls
from pilothouse.store.etcd.store import EtcdStore

__all__ = ["EtcdStore", "Tls"]
