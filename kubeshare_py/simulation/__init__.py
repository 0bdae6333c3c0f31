"""What would happen: the machine in a simulated cluster, and questions about that."""
