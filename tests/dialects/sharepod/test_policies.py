"""First fit, best fit and worst fit of SharePods, by the configurations of `config/`."""

from pathlib import Path
from random import Random

import pytest
import yaml

from kubeshare_py.domain.allocation import Allocation, CardCharge
from kubeshare_py.domain.card_tags import CardTag, TagKind
from kubeshare_py.domain.events import PodGone, PodSeen
from kubeshare_py.domain.identity import DecisionToken, GpuUuid, NodeName
from kubeshare_py.domain.pod import Pod
from tests.builders import GIB, a_claim, a_pod, a_shape
from tests.scale import seeds
from tests.scheduling.driver import Driver

FOLDER = Path(__file__).parents[3] / "config"
FITS = ("first", "best", "worst")


def a_driver(fit: str) -> Driver:
    document = yaml.safe_load((FOLDER / f"sharepod-{fit}-fit.yaml").read_text())
    return Driver({"n1": 2, "n2": 2}, document)


def a_sharepod(name: str, milli: int, affinity: str = "") -> Pod:
    tags = (CardTag(TagKind.AFFINITY, "default", affinity),) if affinity else ()
    return a_pod(name, a_shape(a_claim(milli, memory_bytes=GIB, tags=tags, is_named=True)))


def place(driver: Driver, name: str, milli: int, affinity: str = "") -> str:
    bind = driver.place(a_sharepod(name, milli, affinity))
    [card] = bind.allocation.cards
    return str(card.uuid)


def hold(driver: Driver, card: str, milli: int) -> None:
    """Another scheduler's pod holds so much of a card."""
    charge = CardCharge(GpuUuid(card), milli, 0)
    allocation = Allocation(token=DecisionToken(card), cards=(charge,))
    node = NodeName(card.split("-")[1])
    driver.tell(PodSeen(a_pod(card, scheduler_name="other", node_name=node, allocation=allocation)))


@pytest.mark.parametrize(
    ("fit", "last"), [("first", "GPU-n1-0"), ("best", "GPU-n1-1"), ("worst", "GPU-n2-0")]
)
def test_each_policy_has_its_card(fit: str, last: str) -> None:
    """kubeshare.md E.2 and E.3: 1.0 has the second; the paper names the others too."""
    driver = a_driver(fit)
    first = place(driver, "a", 500)
    second = place(driver, "b", 300)
    assert (second == first) == (fit != "worst")
    driver.tell(PodGone(a_sharepod("a", 500).uid))
    for node, milli in (("n1", 600), ("n2", 100)):
        hold(driver, f"GPU-{node}-1", milli)
    if fit == "worst":
        hold(driver, "GPU-n1-0", 200)
        driver.tell(PodGone(a_sharepod("b", 300).uid))
    assert place(driver, "c", 200) == last


@pytest.mark.parametrize("fit", FITS)
def test_affinity_goes_before_every_policy(fit: str) -> None:
    driver = a_driver(fit)
    place(driver, "plain", 700)
    red = place(driver, "a", 200, "red")
    place(driver, "other", 100)
    assert place(driver, "b", 200, "red") == red


@pytest.mark.parametrize("seed", seeds(5))
def test_best_fit_takes_the_fullest_card_with_room(seed: int) -> None:
    """kubeshare.md E.2: the fewest points win, which is what stays free of a card in use."""
    rng, driver = Random(seed), a_driver("best")
    free = dict.fromkeys(("GPU-n1-0", "GPU-n1-1", "GPU-n2-0", "GPU-n2-1"), 1000)
    for number in range(12):
        milli = rng.choice((50, 100, 200, 300, 400, 500))
        used = [left for left in free.values() if milli <= left < 1000]
        if not used and 1000 not in free.values():
            continue
        card = place(driver, f"p{number}", milli)
        assert free[card] == (min(used) if used else 1000)
        free[card] -= milli
