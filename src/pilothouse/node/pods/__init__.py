"""What belongs to one pod: its worker, its status, its directory, its share of the disk, its eviction."""
