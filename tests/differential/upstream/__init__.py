"""Cases of kube-scheduler's own tests, in words of our own; `cases/` has them, as YAML."""
