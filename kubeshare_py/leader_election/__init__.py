"""Leader election: the rules for which of several processes decides, without clock or client."""
