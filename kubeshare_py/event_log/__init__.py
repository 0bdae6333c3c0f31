"""The machine's events, written to files and run again."""
