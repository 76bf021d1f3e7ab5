"""What is served: the catalog of kinds, discovery documents, OpenAPI, printer tables, version."""
