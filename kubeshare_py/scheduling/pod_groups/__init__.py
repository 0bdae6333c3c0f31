"""Pod groups that start together: planned, placed, repaired."""
