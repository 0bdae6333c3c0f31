"""The only package that touches the outside world."""
