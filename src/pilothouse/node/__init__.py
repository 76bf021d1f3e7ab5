"""The agent on a machine: it registers its Node and runs the pods that are bound to it, as processes.

agent          the whole: registration, the pods of this node, one worker each; what a killed agent left is taken up again
lifecycle      the pure machine: what is known of a pod's containers -> what is to be done, and what its status says
parts          what the core asks of images, volumes, addresses and containers, as protocols; ``app`` brings the real ones
images, volumes, addresses, services, logs, serving
               those parts: each knows its own trade and nothing of the lifecycle

Decisions are functions of a snapshot and the time. Everything that must outlive the agent is on disk below the data
folder or in the API: it may be killed at any instruction, and the next one neither loses nor starts anything twice. The node
talks to an API server through ``client`` and to processes through ``supervise``; it knows neither stores nor the server's inside.
It runs on stock asyncio.
"""
