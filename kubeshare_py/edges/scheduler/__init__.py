"""The scheduler's process: its loop, its writes, its Lease, its endpoints."""
