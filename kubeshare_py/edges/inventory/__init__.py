"""The sources of the inventory: Prometheus, collectors, files, node annotations."""
