"""Schemas of objects: their model, validation, defaults and pruning, and the schemas of Structs and Kubernetes' kinds."""
