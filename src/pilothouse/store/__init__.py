"""Where objects live: one small interface, three backends (memory, sqlite, etcd), one conformance suite for all.

A store knows keys, bytes and revisions. It knows nothing of kinds, versions or HTTP.
"""
