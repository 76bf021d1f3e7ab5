"""How everyone talks to an API server, ours or Kubernetes'. Knows neither stores nor the server's inside.

transport      requests and streams: over HTTP (``http``), or to a server in the same process (``loopback``)
rest           the verbs, with retries and typed failures, on the nouns and objects of ``api``
watching       a view of a collection that is never silently dead: the machine; ``watcher`` drives it
informer       the view as an indexed cache that tells of changes; ``informers`` shares them
electing       who leads: the machine; ``leases`` drives it
access         where the server is and who one is; ``kubeconfig`` and ``in_cluster`` find out
asking         one blocking question, for commands
"""
