"""What a schema can't say about clusters and pilots: rules between fields, and between the stored object and the next.

Each function takes objects that fit their schema and yields every problem with its path. Where the versions differ, a
function takes the rules that differ as arguments; the table of who uses which is in ``navigator.cluster_kinds``.
"""
