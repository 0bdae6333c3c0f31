"""Each test counts its own child processes only."""

import pytest

from tests.edges.inventory.children import leave_out_others


@pytest.fixture(autouse=True)
def _own_children() -> None:
    leave_out_others()
