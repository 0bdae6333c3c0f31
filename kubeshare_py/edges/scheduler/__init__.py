"""The scheduler's process: its loop, its writes, its lease, its endpoints."""
