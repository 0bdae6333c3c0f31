"""Preemption: the search for victims, plans, and carrying them out."""
