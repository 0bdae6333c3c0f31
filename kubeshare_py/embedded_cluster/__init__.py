"""A Kubernetes API server, controllers and kubelets in one process: for demos and tests."""
