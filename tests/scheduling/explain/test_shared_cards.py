"""Cards and what pods hold of them are read in portions, between which the machine decides."""

from kubeshare_py.scheduling.explain.figures import CARDS_A_PORTION, shared_cards
from tests.making import Driver, a_share


def test_no_portion_has_more_cards_than_take_a_few_milliseconds() -> None:
    """A portion with a thousand cards kept the scheduler for a fifth of a second."""
    nodes = 2 * CARDS_A_PORTION // 8 + 1
    driver = Driver({f"n{number}": 8 for number in range(nodes)})
    for number in range(20):
        driver.place(a_share(f"p{number}", 500))
    portions = list(shared_cards(driver.machine))
    cards = [card.uuid for some, _ in portions for card in some]
    parts = [(part.pod, part.of.uuid) for _, some in portions for part in some]
    assert max(len(some) for some, _ in portions) <= CARDS_A_PORTION
    assert len(cards) == len({*cards}) == 8 * nodes
    assert len(parts) == len({*parts}) == 20
    assert sum(card.tenants for some, _ in portions for card in some) == 20
