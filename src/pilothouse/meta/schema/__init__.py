"""Schemas of objects: model, validation, defaults, pruning, and the schemas of Structs and native kinds."""
