"""Where objects live: one small interface, three backends (memory, sqlite, etcd), one conformance suite.

A store knows keys, bytes and revisions; no kinds, versions or HTTP.
"""
