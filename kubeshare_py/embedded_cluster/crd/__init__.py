"""CustomResourceDefinitions, and their kinds."""
