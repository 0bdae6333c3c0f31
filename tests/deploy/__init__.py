"""The chart on a real API server: rendered, installed, changed, run from, and taken away again."""
