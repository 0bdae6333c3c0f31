"""Where the inventory comes from: Prometheus, collectors, files, node annotations."""
