"""OpenAPI documents of the kinds that are served, v3 and v2."""
