"""Odd inputs by the million: seeded, judged by books of their own.

`python -m tests.fuzz --help`; `make prove` runs all of them, `make test` a few thousand.
"""
