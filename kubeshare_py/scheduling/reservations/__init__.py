"""Places kept for pods that wait too long."""
