"""The pods that are placed, as the placement of others depends on them."""
