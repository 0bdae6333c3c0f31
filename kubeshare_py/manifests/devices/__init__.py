"""Objects of resource.k8s.io/v1: device classes, slices of devices, and claims."""
