"""How cards are joined: links as a graph, flattened to what decisions look up."""
