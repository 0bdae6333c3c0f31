"""Storage objects, as they come over the wire."""
