"""Pod Security admission, as Kubernetes' plugin ``PodSecurity``: configuration, exemptions, refusals,
warnings, audit annotations, metrics. The checks themselves are in ``pilothouse.api.pod_security``."""
