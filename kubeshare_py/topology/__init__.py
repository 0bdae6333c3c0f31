"""How cards are joined: links as a graph, and the tables that decisions look up."""
