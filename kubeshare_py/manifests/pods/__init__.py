"""A v1 Pod: its fields, and what placement depends on of each."""
