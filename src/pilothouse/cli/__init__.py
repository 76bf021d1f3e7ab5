"""The ``pilothouse`` command: parses flags, prints, never decides. Components are imported inside their own command."""
