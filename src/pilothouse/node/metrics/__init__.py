"""What a node counts: what its pods use, how full their volumes are, how its disks do. Nothing here changes anything."""
