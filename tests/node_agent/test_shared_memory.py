"""Cards that use the node's memory have what the configuration says."""

import pytest

from kubeshare_py.node_agent.history import History, given_away
from kubeshare_py.node_agent.readings import MemoryRule, memory_rules, with_shared_memory
from tests.node_agent.readings import GIB, a_card, a_reading

NODE = 120 * GIB + 12_345
SHARED = a_card("GPU-s", model="NVIDIA GB10", memory_bytes=0, shares_memory=True)
REFUSED = a_card("GPU-r", model="NVIDIA GB10", memory_bytes=0)


@pytest.mark.parametrize(
    ("text", "gib"),
    [("GB10=80%", 96), ("gb10=96Gi", 96), ("T4=1Gi,*=8192Mi", 8), ("GB10=100%", 120)],
)
def test_a_card_has_what_the_first_fitting_rule_says(text: str, gib: int) -> None:
    history = History()
    reading = a_reading("GPU-a", unreadable=(SHARED,))
    history.take(with_shared_memory(reading, memory_rules(text, NODE)), 0.0)
    found = {card.uuid: (card.memory_bytes, card.healthy) for card in given_away(history.cards())}
    assert found == {"GPU-a": (40 * GIB, True), "GPU-s": (gib * GIB, True)}


def test_without_a_rule_the_card_says_why_pods_do_not_get_it() -> None:
    history = History()
    reading = with_shared_memory(a_reading(unreadable=(SHARED,)), memory_rules("Orin=80%", NODE))
    [told] = [notice.about for notice in history.take(reading, 0.0) if notice.event == "health"]
    assert told["faults"] == ["memory-unknown"]
    assert "collector.memory" in str(told["message"])
    assert given_away(history.cards()) == ()


def test_a_card_whose_memory_was_refused_is_not_given_memory() -> None:
    reading = a_reading("GPU-a", unreadable=(REFUSED,))
    assert with_shared_memory(reading, memory_rules("*=80%", NODE)) is reading


def test_no_text_is_no_rule() -> None:
    assert memory_rules("", NODE) == ()
    assert memory_rules("GB10=1Gi", NODE) == (MemoryRule(model="GB10", memory_bytes=GIB),)


@pytest.mark.parametrize(
    "text", ["GB10", "=80%", "GB10=", "GB10=80", "GB10=101%", "GB10=0%", "G,=1Gi"]
)
def test_what_is_no_rule_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"GB10|=80%|'G'"):
        memory_rules(text, NODE)
