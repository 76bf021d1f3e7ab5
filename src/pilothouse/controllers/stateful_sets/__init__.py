"""StatefulSets: pods with a stable name and storage, created, updated and deleted in order, as in Kubernetes.

``stateful_set_controller`` puts a decision together. Each other module holds one concept: the spec
(``set_spec``), the pods of the set (``set_members``), a pod's name and labels (``pod_identity``), its storage
(``claim_templates``), the history of templates (``revisions``), the next steps and waits (``pod_control``),
and the status (``set_status``).
"""
