"""What authorization costs."""
