"""Scheduling: the machine, its queues, placements, preemption, and explanations."""
