"""What belongs to the machine: its Node object, conditions, credentials, user ids, and its shutdown."""
