"""Payloads: channels, the update server, verified downloads, observers."""
