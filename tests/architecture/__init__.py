"""Habits checked: names, sizes, the map, packaging."""
