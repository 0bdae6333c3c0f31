"""What a release is built from, and that two builds of it are equal."""
