"""Elasticsearch, 6.8 to 8: how a node is set up, what it says of itself, and what is done for a whole cluster.

settings    ``elasticsearch.yml`` from a Pilot's spec, in the words of each version
preparing   checks and files before the start
plugins     what is installed beside it
copying     the copy of the image that plugins are installed into
securing    certificates and the password, where security is asked for
asking      requests to the node beside us
seeing      what its answers mean
leading     what the leading pilot has to do, as a pure decision
explaining  why shards stay without a node
driver      all of it together
"""
