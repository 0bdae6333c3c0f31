"""Gemini, KubeShare 2.0's library and daemons: what its files say, and which daemons run."""
