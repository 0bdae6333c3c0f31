"""The scheduler's state over HTTPS: access of readers, and the answers."""
