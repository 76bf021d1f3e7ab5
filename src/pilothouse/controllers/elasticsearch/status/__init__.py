"""What a cluster reports about itself: its status and conditions."""
