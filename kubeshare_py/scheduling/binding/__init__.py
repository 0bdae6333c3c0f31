"""Placements: reserve, bind, hold, and changes by other clients."""
