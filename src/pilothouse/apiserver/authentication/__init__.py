"""Who makes a request: client certificates, bearer tokens, impersonation."""
