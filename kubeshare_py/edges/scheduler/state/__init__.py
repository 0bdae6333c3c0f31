"""The scheduler's state over HTTPS: who may read what, and the answers."""
