"""See table.py."""

from tests.differential.upstream.table import main

main()
