"""What the configuration files say, checked: typed, with the path of each error."""
