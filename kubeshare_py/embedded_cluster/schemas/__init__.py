"""Values against the schemas of CustomResourceDefinitions."""
