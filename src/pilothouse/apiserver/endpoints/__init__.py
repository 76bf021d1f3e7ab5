"""The verbs: what each does with a request."""
