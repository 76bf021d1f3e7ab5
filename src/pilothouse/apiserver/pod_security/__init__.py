"""Pod Security admission: which namespace allows which pods, who is exempt, and what is said about pods that would not be allowed.

The checks themselves are ``pilothouse.api.pod_security``'s and know no server. Here is the rest, as Kubernetes' admission plugin
``PodSecurity`` has it: the configuration and its file, refusals, warnings, audit annotations and counts.
"""
