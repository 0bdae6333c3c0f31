"""Which source is in charge with `auto`, and that a change alone takes no card away.

The histories are judged by books of their own: what each collector lists, and what was known.
"""

from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubeshare_py.domain.identity import NodeName
from kubeshare_py.domain.values import replace
from kubeshare_py.inventory.changes import next_reading
from kubeshare_py.inventory.sample_merge import Reading
from kubeshare_py.inventory.series import Series
from kubeshare_py.inventory.source_choice import (
    FIRST_TRIAL_S,
    LONGEST_TRIAL_S,
    PATIENCE_S,
    SourceChange,
    SourceChoice,
    SourceInCharge,
    SourceState,
    passed_on,
)
from tests.inventory.vector import A, B, capacity, count, read, up

SCRAPE, PROMETHEUS = SourceInCharge.SCRAPE, SourceInCharge.PROMETHEUS
INTERVAL_S = 5.0
NODES = (A, B, NodeName("c"))
BOTH = (capacity("a", "GPU-1"), capacity("a", "GPU-2"), up("a"), capacity("b", "GPU-3"), up("b"))


def reading(*vector: Series) -> Reading:
    return read(Reading(), *vector).reading


def standing(*vector: Series, **fields: Any) -> SourceState:
    return SourceState(reading=reading(*vector), **fields)


def in_charge() -> SourceChoice:
    """Prometheus is, since 0.0; no collector is excused."""
    choice = SourceChoice(INTERVAL_S)
    assert isinstance(choice.tried(0.0, standing(*BOTH), reading(*BOTH)), SourceChange)
    return choice


def test_prometheus_takes_over_when_it_names_every_card() -> None:
    choice = SourceChoice(INTERVAL_S)
    assert choice.in_charge is SCRAPE
    assert choice.trial_is_due(0.0)
    change = choice.tried(0.0, standing(*BOTH), reading(*BOTH))
    assert change == SourceChange(
        before=SCRAPE, after=PROMETHEUS, reason="it names every card of the collectors"
    )
    assert choice.in_charge is PROMETHEUS
    assert not choice.trial_is_due(1e9)


def test_one_that_does_not_name_every_card_does_not_take_over() -> None:
    choice = SourceChoice(INTERVAL_S)
    lacking = "it does not name every card of"
    assert choice.tried(0.0, standing(*BOTH), reading(*BOTH[1:])) == f"{lacking} node a"
    assert choice.tried(0.0, standing(*BOTH), reading(capacity("d", "GPU-9"), up("d"))) == (
        f"{lacking} nodes a, b"
    )
    assert choice.in_charge is SCRAPE


def test_one_that_is_up_and_names_no_card_does_not_take_over() -> None:
    for before in (standing(*BOTH), standing()):
        for found in (reading(), reading(up("a"), count("a", 0))):
            said = SourceChoice(INTERVAL_S).tried(0.0, before, found)
            assert said == "it names no card of a collector that answers"
    assert SourceChoice(INTERVAL_S).tried(0.0, standing(), "refused") == "refused"


def test_cards_of_silent_nodes_need_not_be_named() -> None:
    silent = read(reading(*BOTH), *BOTH[:3], up("b", 0)).reading
    change = SourceChoice(INTERVAL_S).tried(0.0, SourceState(reading=silent), reading(*BOTH[:3]))
    assert isinstance(change, SourceChange)


def test_when_no_collector_answers_any_card_is_enough() -> None:
    found = reading(capacity("d", "GPU-9"), up("d"))
    before = standing(*BOTH, failure="none of 2 collectors answers")
    assert isinstance(SourceChoice(INTERVAL_S).tried(0.0, before, found), SourceChange)


def test_trials_become_rarer() -> None:
    choice, now, pauses = SourceChoice(INTERVAL_S), 0.0, []
    for _ in range(8):
        choice.tried(now, standing(*BOTH), "refused")
        first, now = now, now + 1
        while not choice.trial_is_due(now):
            now += 1
        pauses.append(now - first)
    assert pauses[:3] == [FIRST_TRIAL_S, 20, 40]
    assert pauses[-2:] == [LONGEST_TRIAL_S, LONGEST_TRIAL_S]


def test_one_that_fails_for_long_gives_way_and_one_that_recovers_does_not() -> None:
    choice, bad = in_charge(), standing(*BOTH, failure="refused")
    assert choice.failed(10.0, bad) is None
    assert choice.failed(9.9 + PATIENCE_S, bad) is None
    assert choice.failed(10.0 + PATIENCE_S, standing(*BOTH)) is None
    assert choice.failed(500.0, bad) is None
    change = choice.failed(500.0 + PATIENCE_S, bad)
    assert change == SourceChange(
        before=PROMETHEUS,
        after=SCRAPE,
        reason="for 120 s it has given no usable answer: refused",
    )
    assert choice.in_charge is SCRAPE
    assert not choice.trial_is_due(500.0 + PATIENCE_S)
    assert choice.trial_is_due(500.0 + PATIENCE_S + FIRST_TRIAL_S)


def test_one_that_scrapes_no_collector_any_more_gives_way() -> None:
    choice, empty = in_charge(), read(reading(*BOTH)).reading
    assert choice.failed(10.0, SourceState(reading=empty)) is None
    change = choice.failed(10.0 + PATIENCE_S, SourceState(reading=empty))
    assert change is not None
    assert change.reason == "for 120 s it has named no card of a collector that answers"


def test_one_that_lacks_a_ready_collector_gives_way() -> None:
    choice = in_charge()
    there = standing(*BOTH, collectors=frozenset(NODES))
    assert choice.failed(10.0, there) is None
    change = choice.failed(10.0 + PATIENCE_S, there)
    assert change is not None
    assert change.reason.endswith(
        "it has not named the cards of node c, where a collector is ready"
    )


def test_a_collector_that_answered_the_scheduler_neither_does_not_count() -> None:
    choice = SourceChoice(INTERVAL_S)
    there = standing(*BOTH, collectors=frozenset(NODES))
    assert isinstance(choice.tried(0.0, there, reading(*BOTH)), SourceChange)
    assert choice.failed(10.0, there) is None
    assert choice.failed(10.0 + 2 * PATIENCE_S, there) is None
    # Once Prometheus has named it, it counts like all others.
    named = (*BOTH, up("c"), count("c", 0))
    assert choice.failed(500.0, replace(there, reading=reading(*named))) is None
    assert choice.failed(510.0, there) is None
    assert isinstance(choice.failed(510.0 + PATIENCE_S, there), SourceChange)


def test_one_that_fails_again_and_again_is_tried_ever_less_often() -> None:
    choice, now, pauses = SourceChoice(INTERVAL_S), 0.0, []
    for _ in range(4):
        assert isinstance(choice.tried(now, standing(*BOTH), reading(*BOTH)), SourceChange)
        choice.failed(now, standing(*BOTH, failure="refused"))
        now += PATIENCE_S
        assert choice.failed(now, standing(*BOTH, failure="refused")) is not None
        first = now
        while not choice.trial_is_due(now):
            now += 1
        pauses.append(now - first)
        choice.tried(now, standing(*BOTH), "refused")
        now += LONGEST_TRIAL_S
    assert pauses == [10, 20, 40, 80]


def test_short_intervals_shorten_all_times() -> None:
    choice = SourceChoice(0.1)
    assert choice.patience_s < 3
    choice.tried(0.0, standing(*BOTH), "refused")
    assert choice.trial_is_due(0.2)


# --- histories ---------------------------------------------------------------------------------


@dataclass(slots=True)
class World:
    """Collectors, and a Prometheus that may scrape them; `known` is what the scheduler has.

    `labels`: the scrapes have a label with the node. `dropped`: of these Prometheus keeps
    `up` alone.
    """

    labels: bool
    dropped: frozenset[NodeName]
    listed: dict[NodeName, set[str]] = field(
        default_factory=lambda: {node: {f"GPU-{node}1", f"GPU-{node}2"} for node in NODES}
    )
    down: set[NodeName] = field(default_factory=set)
    unscraped: set[NodeName] = field(default_factory=set)
    prometheus_answers: bool = False
    choice: SourceChoice = field(default_factory=lambda: SourceChoice(INTERVAL_S))
    known: Reading = field(default_factory=Reading)
    failure: str = ""
    now: float = 0.0

    def toggle(self, what: str, node: NodeName) -> None:
        if what == "prometheus":
            self.prometheus_answers = not self.prometheus_answers
        elif what == "card":
            self.listed[node] ^= {f"GPU-{node}2"}
        else:
            (self.down if what == "collector" else self.unscraped).symmetric_difference_update(
                {node}
            )

    def pages(self) -> tuple[Series, ...]:
        """What the collectors answer the scheduler itself."""
        return tuple(
            series
            for node in NODES
            for series in (
                [_with_node(up(node, 0), node)]
                if node in self.down
                else [_with_node(up(node), node), *self._cards(node)]
            )
        )

    def scraped(self) -> tuple[Series, ...]:
        """What Prometheus answers."""
        found: list[Series] = []
        for node in NODES:
            if node not in self.unscraped:
                answers = up(node, int(node not in self.down))
                found.append(_with_node(answers, node) if self.labels else answers)
                if node not in self.down | self.dropped:
                    found += self._cards(node)
        return tuple(found)

    def _cards(self, node: NodeName) -> list[Series]:
        cards = [capacity(node, uuid, value=self.now) for uuid in sorted(self.listed[node])]
        return [count(node, len(cards)), *cards]

    def step(self) -> None:
        """One interval: the source in charge is read, and Prometheus is tried if that is due."""
        self.now += INTERVAL_S
        if self.choice.in_charge is SCRAPE:
            self.read(self.pages(), "" if len(self.down) < len(NODES) else "no collector answers")
        else:
            self.read(self.scraped(), "" if self.prometheus_answers else "refused")
        there = SourceState(
            reading=self.known, failure=self.failure, collectors=frozenset({*NODES} - self.down)
        )
        change: SourceChange | str | None = self.choice.failed(self.now, there)
        if self.choice.trial_is_due(self.now):
            found: Reading | str = "refused"
            if self.prometheus_answers:
                found = next_reading(Reading(), self.scraped(), self.now).reading
            change = self.choice.tried(self.now, there, found)
        if isinstance(change, SourceChange):
            self.known = passed_on(self.known)

    def read(self, vector: tuple[Series, ...], failure: str) -> None:
        self.failure = failure
        if not failure:
            self.known = next_reading(self.known, vector, self.now).reading

    def uuids(self) -> set[str]:
        return {card.uuid for cards in self.known.cards.values() for card in cards}

    def all_listed(self) -> set[str]:
        return {uuid for uuids in self.listed.values() for uuid in uuids}


def _with_node(series: Series, node: NodeName) -> Series:
    return Series({**series.labels, "node": node}, series.value)


TOGGLES = st.tuples(
    st.sampled_from(["prometheus", "prometheus", "card", "collector", "scraping"]),
    st.sampled_from(NODES),
)
#: What happens, and how many intervals pass after it: often more than Prometheus may fail for.
HISTORIES = st.lists(st.tuples(TOGGLES, st.sampled_from([1, 5, 30])), min_size=1, max_size=10)
#: Labels on the scrapes say which collector answers: then no series may be dropped on the way.
WORLDS = st.builds(World, labels=st.just(True), dropped=st.just(frozenset())) | st.builds(
    World, labels=st.just(False), dropped=st.frozensets(st.sampled_from(NODES), max_size=1)
)


@given(WORLDS, HISTORIES)
def test_no_card_goes_while_its_collector_lists_it(
    world: World, history: list[tuple[tuple[str, NodeName], int]]
) -> None:
    for (what, node), intervals in history:
        world.toggle(what, node)
        for _ in range(intervals):
            before = world.uuids()
            world.step()
            assert not (before & world.all_listed()) - world.uuids()


def test_an_address_of_the_scheduler_says_nothing_about_a_collector_of_prometheus() -> None:
    world = World(labels=False, dropped=frozenset({B}))
    world.step()
    world.down.add(B)
    world.prometheus_answers = True
    for _ in range(3):
        world.step()
    assert world.choice.in_charge is PROMETHEUS
    # By its address it answers now, and Prometheus keeps nothing of what it says.
    world.down.clear()
    world.step()
    assert world.uuids() == world.all_listed()


@pytest.mark.slow
@given(WORLDS, HISTORIES)
def test_every_card_is_known_in_the_end_whether_prometheus_answers_or_not(
    world: World, history: list[tuple[tuple[str, NodeName], int]]
) -> None:
    for (what, node), intervals in history:
        world.toggle(what, node)
        for _ in range(intervals):
            world.step()
    world.down.clear()
    for answers in (False, True):
        world.prometheus_answers = answers
        world.unscraped.clear()
        for _ in range(110):
            world.step()
        assert world.uuids() == world.all_listed()
        assert not world.known.silent_since
        has_all = answers and not any(world.listed[node] for node in world.dropped)
        assert world.choice.in_charge is (PROMETHEUS if has_all else SCRAPE)
