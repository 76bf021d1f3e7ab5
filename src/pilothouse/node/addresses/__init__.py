"""Addresses and names of a node's pods, and routes to other nodes.

pod_ranges       which addresses the node has: a block of loopback, or the range of ``--pod-cidr``
address_records  which pod has which address, across restarts of the agent
host_ports       which pod has which port of the node
dns_names        the names of services and their endpoints
hosts_file       a pod's /etc/hosts, updated without readers seeing a broken line
resolv_conf      a pod's /etc/resolv.conf
cluster_ranges   the ranges of all nodes, as the control plane reports them
route_plan       which range is behind which machine; ``iproute`` applies it
pod_network      all of it together: ``interfaces.AddressManager``

The decisions are pure functions; files, sockets and ``ip`` are at the edge.
"""
