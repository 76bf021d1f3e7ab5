"""Elasticsearch, 6.8 to 8: how a node is set up, what it says of itself, and what is done for a whole cluster.

settings              ``elasticsearch.yml`` from a Pilot's spec, in the words of each version
preflight             checks and files before the start
plugins               what is installed beside it
image_copy            the copy of the image that plugins are installed into
tls_and_users         certificates and the password, where security is asked for
node_client           requests to the node beside us
cluster_state         what its answers mean
cluster_actions       what the leading pilot has to do, as a pure decision
allocation_explain    why shards stay without a node
elasticsearch_driver  all of it together
"""
