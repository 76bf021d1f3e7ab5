"""The verbs, one module each, and the subresource ``scale``. Writes go through ``write_pipeline``. No module
names a kind: what differs is in the ``Kind`` and its strategy (``registry``)."""
