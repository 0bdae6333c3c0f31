"""The dashboard's pure room."""
