"""Addresses and names of a node's pods, and the way to those of other nodes.

ranges      which addresses there are: a block of loopback, or the range of ``--pod-cidr``
ledger      which pod has which, over agents
host_ports  who has which port of the node itself
names       which names there are, by services and their endpoints
hosts_file  a pod's /etc/hosts, changed under readers without their seeing a broken line
resolver    a pod's /etc/resolv.conf
cluster_ranges  where the control plane says that the ranges of all nodes lie
routes      which ranges lie behind which machine; ``iproute`` tells the kernel
network     all of it together, as the core asks for it (``parts.Addresses``)

The decisions are functions of what is seen; files, sockets and ``ip`` are at the edge.
"""
