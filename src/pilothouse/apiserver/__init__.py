"""The API server: a Kubernetes-style API over a store. It validates, stores and serves; it reconciles
nothing.

``server`` listens, ``request_handler`` answers. A request passes ``authentication``, ``authorization`` and
``flowcontrol``; a verb of ``endpoints`` answers it with ``admission`` and the strategies of ``registry``,
over ``storage``.
"""
