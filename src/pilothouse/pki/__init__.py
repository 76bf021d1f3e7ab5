"""Keys and certificates: the control plane's own CA and what it signs. Knows nothing of HTTP or objects."""
