"""Cases of kube-scheduler's own tests, in words of our own; README.md says how they are written."""
