"""In-tree policy: each file is one plugin and its whole reasoning."""
