"""Pod Security admission: which namespace allows which pods.

The checks are ``pilothouse.api.pod_security``'s and know no server. Here is the rest, as Kubernetes'
admission plugin ``PodSecurity`` has it: the configuration and its file, exemptions, refusals, warnings, audit
annotations and counts.
"""
