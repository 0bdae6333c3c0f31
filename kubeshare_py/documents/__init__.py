"""Files that people write, as plain data: YAML within limits, and errors that name the place."""
