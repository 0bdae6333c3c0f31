"""The dashboard without I/O: what the page gets, who may see it, how often the state is read."""
