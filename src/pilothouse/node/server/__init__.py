"""The node's HTTPS server: logs, exec, attach and metrics.

Its paths are kubelet's, so a real kube-apiserver can use it too. The API server decides on access: client
certificates are verified against its authority, tokens and permissions by its reviews.
"""
