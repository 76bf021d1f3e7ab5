"""The node agent: registers its machine as a Node and runs the pods bound to it as processes, as kubelet does.

agent        follows the pods of this node, with one worker for each; a restarted agent adopts what still runs
interfaces   what the agent asks of images, volumes, addresses and containers, as protocols; ``app`` passes the real ones
lifecycle    pure decisions: the state of a pod's containers in, the next actions and the status out
pods, containers, machine
             what belongs to one pod, to one container, to the machine
images, volumes, addresses, services, logs, metrics, server
             the parts behind those protocols, and the agent's HTTP server; they know nothing of the lifecycle
files        directories that pods can write to

Decisions are functions of a snapshot and the time. Everything that must outlive the agent is in the data directory or in
the API, so the agent may be killed at any instruction: the next one loses nothing and starts nothing twice. The agent talks to the
API server through ``client`` and to processes through ``supervise``; it imports neither the server nor a store. It runs
on stock asyncio.
"""
