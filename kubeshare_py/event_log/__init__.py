"""Everything that the machine was told, written down, and run again."""
