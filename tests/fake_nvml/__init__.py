"""A libnvidia-ml.so.1 for tests, and boards for it."""
