"""What the stores cost."""
