"""Judgement of what a node's drivers report, without asking them."""
