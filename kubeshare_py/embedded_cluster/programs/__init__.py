"""The demo, and a whole cluster around one scheduler."""
