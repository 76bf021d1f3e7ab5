"""A store in an etcd cluster, shared by any number of API servers. The only door to grpc and protobuf.

    store = await EtcdStore.open(["https://10.0.0.1:2379", "https://10.0.0.2:2379"], tls=Tls(ca=..., cert=..., key=...))

Not to be imported by a process that starts children: grpc and fork don't mix. ``open_store`` imports it when asked to.
"""

from pilothouse.store.etcd.connection import Tls
from pilothouse.store.etcd.store import EtcdStore

__all__ = ["EtcdStore", "Tls"]
