"""The node agent: registers its machine as a Node and runs the pods bound to it as processes, as kubelet
does.

agent        follows the pods of this node, with one worker for each; a restarted agent adopts what still runs
interfaces   protocols for images, volumes, addresses and containers; ``app`` passes the implementations
lifecycle    pure decisions: the state of a pod's containers in, the next actions and the status out
pods, containers, machine
             what belongs to one pod, to one container, to the machine
images, volumes, addresses, services, logs, metrics, server
             implementations of those protocols, and the agent's HTTP server; independent of the lifecycle
updating     the update agent, which carries out the turns that update plans give to the machine
files        directories that pods can write to

Everything that must outlive the agent is in the data directory or in the API, so the agent may be killed at
any instruction. It imports neither the API server nor a store, and runs on stock asyncio.
"""
