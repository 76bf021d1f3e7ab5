"""Who makes a request: certificates, tokens, impersonation."""
