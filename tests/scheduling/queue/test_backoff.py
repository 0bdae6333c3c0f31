"""How long pods whose placement failed stay out of the queue."""

import pytest

from kubeshare_plugins import IN_TREE
from kubeshare_py.configuration.scheduler import read
from kubeshare_py.domain.events import BindRefused, Refusal
from kubeshare_py.scheduling.machine import configured_machine
from kubeshare_py.scheduling.queue.timers import QueueBackoff, backoff_s
from tests.making import Driver, a_share


def test_pauses_double_as_in_kube_scheduler() -> None:
    assert [backoff_s(tries) for tries in range(1, 8)] == [1, 2, 4, 8, 10, 10, 10]


@pytest.mark.parametrize("tries", [1, 2, 5, 40])
def test_pauses_grow_from_the_first_to_the_longest(tries: int) -> None:
    backoff = QueueBackoff(0.5, 600)
    assert backoff.after(tries) == min(600, 0.5 * 2 ** (tries - 1))
    assert backoff.after(10_000) == 600


def test_the_configuration_says_how_long_refused_pods_pause() -> None:
    document = {"podInitialBackoffSeconds": 3, "podMaxBackoffSeconds": 5}
    machine = configured_machine(read(document), IN_TREE, "test")
    driver = Driver({"n1": 1}, machine=machine)
    (bind,) = driver.seen(a_share("p", 600))
    for pause_s in (3, 5, 5):
        driver.answer(bind, BindRefused(Refusal.INVALID, "no"))
        assert driver.decide() == []
        assert driver.machine.wake_at(driver.now) == driver.now + pause_s
        driver.now += pause_s
        (bind,) = driver.decide()
