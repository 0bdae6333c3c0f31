"""The built-in kinds: defaults, validation, rows of `kubectl get`."""
