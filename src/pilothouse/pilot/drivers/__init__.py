"""What is known of each database. A driver knows its own and no other."""
