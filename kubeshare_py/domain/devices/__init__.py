"""Objects of dynamic resource allocation (resource.k8s.io/v1) as frozen values."""
