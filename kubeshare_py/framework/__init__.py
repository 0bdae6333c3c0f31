"""Extension points: what a plugin may decide and when it is asked; profiles."""
