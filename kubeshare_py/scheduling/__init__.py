"""Decisions: the machine, its queue, one cycle, and the explanation of a result."""
