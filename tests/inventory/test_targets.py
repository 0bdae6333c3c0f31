"""Which of several collectors on a node is asked."""

from kubeshare_py.inventory.targets import ScrapeTarget, chosen
from tests.inventory.vector import A, B


def test_each_node_has_one_that_stays_and_is_ready() -> None:
    ending = ScrapeTarget(node=A, host="10.0.0.1", is_ending=True)
    starting = ScrapeTarget(node=A, host="10.0.0.3", is_ready=False)
    ready = ScrapeTarget(node=A, host="10.0.0.4")
    twin = ScrapeTarget(node=A, host="10.0.0.5")
    b = ScrapeTarget(node=B, host="10.0.0.2", is_ready=False)
    for targets, first in (
        ((ending, starting, ready, twin), ready),
        ((twin, ready), ready),
        ((ending, starting), starting),
        ((ending,), ending),
    ):
        assert chosen([b, *targets]) == {A: first, B: b}
        assert chosen([*reversed(targets), b]) == {A: first, B: b}
