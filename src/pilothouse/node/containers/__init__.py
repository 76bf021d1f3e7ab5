"""What belongs to one container: its worker, how it is configured, started, probed and stopped."""
