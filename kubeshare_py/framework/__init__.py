"""The scheduling framework: extension points, profiles, and the cache of plugins' answers."""
