"""The node's HTTPS server: logs, exec, attach and metrics.

Its paths are kubelet's, so a real kube-apiserver can use it as ours does. The API server decides on access: client certificates
are checked against its authority, tokens and permissions by its reviews. The server changes nothing on the node; only exec and attach
reach into containers.
"""
