"""HAMi-core on a node: what containers get of it, and what its shared regions say."""
