"""What is served: discovery documents, OpenAPI, printer tables, version."""
