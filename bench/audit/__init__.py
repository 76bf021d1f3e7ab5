"""What the audit trail costs."""
