"""The scheduler's state as values: views for people, figures for monitoring."""
