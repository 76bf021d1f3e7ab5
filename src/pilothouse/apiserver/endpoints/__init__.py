"""The verbs: one module each, from ``get`` to ``delete``, and the subresource ``scale``.

Every verb that writes goes through ``write_pipeline``. Nothing here names a kind: what differs between kinds
is in the ``Kind`` and in its strategy (``registry``).
"""
