"""Objects of resource.k8s.io as JSON."""
