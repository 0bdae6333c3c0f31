"""HAMi-core on a node: its library and folders, and its shared regions as files."""
