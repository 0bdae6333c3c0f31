"""A v1 Pod: its fields, and the values that placement depends on."""
