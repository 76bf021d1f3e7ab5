"""The client of an API server, ours or Kubernetes'.

``transport`` sends requests (``http_transport``, ``in_process``); ``api`` has the verbs. ``watch_machine``
and ``watcher`` follow a collection, ``informer`` caches it, ``shared_informers`` shares caches.
``leader_election`` and ``leader_lease`` elect a leader. ``access`` (``kubeconfig``, ``in_cluster``) has
address and credentials. ``single_request`` is one blocking request, for commands.
"""
