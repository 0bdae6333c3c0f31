"""What pods need beyond amounts: other pods near or far, ports of the host, cluster objects."""
