"""The API server: a Kubernetes-style API over a store.

``request_handler`` answers requests and knows no sockets; ``server`` listens. A request passes
``authentication``, ``authorization`` and ``flowcontrol``, is answered by a verb of ``endpoints``, which asks
``admission`` and the strategies of ``registry``, and reads and writes through ``storage``. The server
validates, stores and serves; it reconciles nothing, so it never imports controllers, the runtime or the
client.
"""
