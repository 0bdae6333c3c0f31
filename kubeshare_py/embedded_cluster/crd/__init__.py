"""CustomResourceDefinitions, and the kinds that they make."""
