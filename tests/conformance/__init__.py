"""What holds on the embedded API server and on a real one: the same tests ask both."""
