"""What `kubectl kubeshare` reads and draws."""
