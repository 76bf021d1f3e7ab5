"""How everyone talks to an API server, ours or Kubernetes'. Knows neither stores nor the server's inside.

transport        requests and streams: over HTTP (``http_transport``), or to a server in the same process (``in_process``)
api              the verbs, with retries and typed failures, on the kinds and objects of ``pilothouse.api``
watch_machine    a view of a collection that is never silently dead: the state machine; ``watcher`` drives it
informer         the view as an indexed cache that reports changes; ``shared_informers`` shares them
leader_election  who leads: the state machine; ``leader_lease`` drives it
access           where the server is and with which credentials; ``kubeconfig`` and ``in_cluster`` read it
single_request   one blocking request, for commands
"""
