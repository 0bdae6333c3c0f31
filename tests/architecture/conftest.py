"""What these tests read of the whole repository is kept only as long as they run."""

from collections.abc import Iterator

import pytest

from tests.architecture.sources import nodes_of, text_of


@pytest.fixture(autouse=True, scope="package")
def forgotten_sources() -> Iterator[None]:
    """Syntax trees of 2,000 files are most of a worker's memory."""
    yield
    nodes_of.cache_clear()
    text_of.cache_clear()
