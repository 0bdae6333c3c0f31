"""Which pods give way to which, and what becomes of it."""
