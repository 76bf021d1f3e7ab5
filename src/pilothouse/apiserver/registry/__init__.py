"""The special kinds: one ``Strategy`` each, registered in one table (``strategies``). It prepares and
validates objects, wraps their writes, and serves the kind's own subresources."""
