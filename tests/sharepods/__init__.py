"""The reconciler of SharePods, by itself."""
