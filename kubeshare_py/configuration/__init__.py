"""The configuration files: typed and checked, with the path of each error."""
