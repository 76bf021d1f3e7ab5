"""Elasticsearch, 6.8 to 8: how a node is set up and observed, and what is done for a whole cluster.

settings, preflight    ``elasticsearch.yml``; checks and files before the start
plugins, image_copy    plugins, and the copy of the image that they are installed into
tls_and_users          certificates and the password
node_client            requests to the node beside us
cluster_state          what its answers mean
cluster_actions        what the leading pilot has to do, as a pure decision
allocation_explain     why shards are unassigned
elasticsearch_driver   all of it together
"""
