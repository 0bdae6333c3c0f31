"""The cluster of most tests of preemption."""

import pytest

from tests.making import PREEMPTION, Driver, a_share


@pytest.fixture
def cluster() -> Driver:
    """A card with tenants of priority 1 and 2, and a card with one of priority 5."""
    driver = Driver({"n1": 2}, PREEMPTION)
    driver.fill(a_share("one", 500, 1), a_share("two", 500, 2), a_share("five", 1000, 5))
    return driver
