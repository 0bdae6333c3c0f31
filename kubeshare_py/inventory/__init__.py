"""The inventory of cards: samples and files read into domain cards, and what changed."""
