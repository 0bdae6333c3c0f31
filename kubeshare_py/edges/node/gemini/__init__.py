"""Gemini on a node: its files, its library, its daemons."""
