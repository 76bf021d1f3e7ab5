"""The front door: a Kubernetes-style API server over a store.

``core`` answers requests and knows no sockets; ``http`` is the edge that listens. The server validates, stores and
serves; it decides nothing, so it never imports controllers, the runtime or the client.
"""
