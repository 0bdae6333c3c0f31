"""A real Kubernetes control plane for tests, built from source and run on this machine."""
