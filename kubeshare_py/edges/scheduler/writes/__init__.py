"""What the scheduler writes: Bindings, evictions, conditions, events."""
