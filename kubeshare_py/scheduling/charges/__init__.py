"""What pods, claims and lingering pods hold of nodes and cards; what other clients did to pods."""
