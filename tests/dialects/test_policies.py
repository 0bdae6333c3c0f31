"""First fit, best fit and worst fit of SharePods, by the configurations of `config/`."""

from pathlib import Path
from random import Random

import pytest
import yaml

from kubeshare_py.domain.allocation import Allocation, CardCharge
from kubeshare_py.domain.events import PodGone, PodSeen
from kubeshare_py.domain.gpu import CardTag, TagKind
from kubeshare_py.domain.identity import DecisionToken, GpuUuid, NodeName
from kubeshare_py.domain.pod import Pod
from tests.making import GIB, Driver, a_claim, a_pod, a_shape
from tests.scale import seeds

FOLDER = Path(__file__).parents[2] / "config"
FITS = ("first", "best", "worst")


def a_driver(fit: str, cards: dict[str, int] | None = None) -> Driver:
    document = yaml.safe_load((FOLDER / f"sharepod-{fit}-fit.yaml").read_text())
    return Driver(cards or {"n1": 2, "n2": 2}, document)


def a_sharepod(name: str, milli: int, affinity: str = "", exclusion: str = "") -> Pod:
    words = ((TagKind.AFFINITY, affinity), (TagKind.EXCLUSION, exclusion))
    tags = tuple(CardTag(kind, "default", word) for kind, word in words if word)
    return a_pod(name, a_shape(a_claim(milli, memory_bytes=GIB, tags=tags, is_named=True)))


def place(driver: Driver, name: str, milli: int, affinity: str = "", exclusion: str = "") -> str:
    bind = driver.place(a_sharepod(name, milli, affinity, exclusion))
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
    """KubeShare 1.0 has best fit alone; its paper names others too."""
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
    """KubeShare 1.0 takes the card in use that has the least left after the pod."""
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


@pytest.mark.slow
@pytest.mark.parametrize("fit", FITS)
@pytest.mark.parametrize("nodes", [1, 8])
@pytest.mark.parametrize("seed", seeds(3))
def test_each_policy_holds_among_the_cards_that_an_exclusion_leaves(
    fit: str, nodes: int, seed: int
) -> None:
    """Eight cards, of one node or of a node each; all pods of a card have one word, or none."""
    rng, per_node = Random(seed), 8 // nodes
    cards = [(f"n{number // per_node}", number % per_node) for number in range(8)]
    driver = a_driver(fit, dict.fromkeys((node for node, _ in cards), per_node))
    free = {f"GPU-{node}-{slot}": 1000 for node, slot in cards}
    held: dict[str, tuple[str, int, str]] = {}
    words: set[str] = set()
    for number in range(150):
        if held and rng.random() < 0.45:
            name, (card, milli, _) = rng.choice([*held.items()])
            driver.tell(PodGone(a_sharepod(name, milli).uid))
            del held[name]
            free[card] += milli
            continue
        name, milli = f"p{number}", rng.choice((100, 200, 300, 400, 500))
        word = rng.choice(("", "blue", "navy"))
        word_of = {card: its for card, _, its in held.values()}
        usable = {
            card: left
            for card, left in free.items()
            if left >= milli and word_of.get(card, word) == word
        }
        if not usable:
            continue
        card = place(driver, name, milli, exclusion=word)
        if fit == "first":
            assert card == next(iter(usable))
        else:
            assert usable[card] == (min if fit == "best" else max)(usable.values())
        free[card] -= milli
        held[name] = (card, milli, word)
        words.add(word)
    assert words == {"", "blue", "navy"}
