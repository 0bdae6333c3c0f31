"""Objects and answers of the Kubernetes API: names, selectors, patches, watches."""
