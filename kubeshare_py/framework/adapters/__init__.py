"""Plugins from one plain function of one node or card."""
