"""The device plugins of a node as values: what each advertises, and who gets which cards."""
