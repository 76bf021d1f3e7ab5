"""What a write must pass besides its kind's own validation."""
