"""The part that touches the outside world: HTTPS, clients of the API, the clock."""
