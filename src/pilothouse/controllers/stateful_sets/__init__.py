"""StatefulSets: pods with a name and storage of their own, made, updated and ended in order; as Kubernetes does it.

``deciding`` puts a decision together; the other modules each hold one concept of it: what is wanted (``wanted``), which
pods belong to the set (``members``), a pod's name and marks (``identity``), its storage (``claims``), the templates of old
(``revisions``), what is done next and what is waited for (``progress``), and what is said of it (``status``).
"""
