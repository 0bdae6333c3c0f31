"""Whatever drivers say, in any order: judged by the test's own books."""

from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from kubeshare_py.domain.card_reading import Repair
from kubeshare_py.node_agent.history import ERROR_KEPT_S, History, given_away
from tests.node_agent.readings import a_card, a_reading, an_error

UUIDS = ("GPU-a", "GPU-b", "GPU-c")
#: What a driver says of one card: how it is read, which repair it wants, whether it had an error.
Word = tuple[str, Repair | None, str]
WORDS = st.tuples(
    st.sampled_from(("read", "read", "unreadable", "absent")),
    st.sampled_from((None, Repair.NONE, Repair.NONE, Repair.RESET)),
    st.sampled_from(("", "", "", "xid-79", "application")),
)
#: Seconds since the reading before, and a word for each card.
STEPS = st.lists(
    st.tuples(st.sampled_from((1.0, 20.0, 2 * ERROR_KEPT_S)), st.tuples(*[WORDS] * len(UUIDS))),
    min_size=1,
    max_size=12,
)
Steps = list[tuple[float, tuple[Word, ...]]]


@dataclass
class Books:
    """What must be so, kept without looking at the history."""

    known: set[str] = field(default_factory=set)
    read_once: set[str] = field(default_factory=set)
    read: set[str] = field(default_factory=set)
    lost: set[str] = field(default_factory=set)
    erred: dict[str, float] = field(default_factory=dict)
    wants: set[str] = field(default_factory=set)
    blameless: set[str] = field(default_factory=lambda: {*UUIDS})

    def enter(self, now: float, words: tuple[Word, ...]) -> None:
        for uuid, (how, repair, error) in zip(UUIDS, words, strict=True):
            if how == "absent" and uuid in self.known:
                self.lost.add(uuid)
            if how != "absent":
                self.known.add(uuid)
            if how != "absent" and uuid in self.lost:
                self.lost.discard(uuid)
                self.erred.pop(uuid, None)
            (self.read.add if how == "read" else self.read.discard)(uuid)
            if how == "read":
                self.read_once.add(uuid)
                (self.wants.add if repair is Repair.RESET else self.wants.discard)(uuid)
            if error == "xid-79":
                self.erred[uuid] = now
            if error == "xid-79" or how != "read" or repair is Repair.RESET:
                self.blameless.discard(uuid)


def told(history: History, now: float, words: tuple[Word, ...]) -> None:
    """One reading of these words."""
    cards = [
        a_card(uuid, repair=repair)
        for uuid, (how, repair, _) in zip(UUIDS, words, strict=True)
        if how == "read"
    ]
    unreadable = tuple(
        a_card(uuid, memory_bytes=0)
        for uuid, (how, _, _) in zip(UUIDS, words, strict=True)
        if how == "unreadable"
    )
    happened = tuple(
        an_error(
            uuid, code="xid-79" if error == "xid-79" else "xid-31", is_application=error != "xid-79"
        )
        for uuid, (_, _, error) in zip(UUIDS, words, strict=True)
        if error
    )
    history.take(a_reading(*cards, unreadable=unreadable, happened=happened), now)


def health(history: History) -> dict[str, bool]:
    return {card.uuid: card.healthy for card in given_away(history.cards())}


def lived(steps: Steps) -> tuple[History, float]:
    history, now = History(), 0.0
    for pause, words in steps:
        now += pause
        told(history, now, words)
    return history, now


@given(STEPS)
def test_only_what_is_there_and_well_may_be_given_away(steps: Steps) -> None:
    history, books, now = History(), Books(), 0.0
    for pause, words in steps:
        now += pause
        told(history, now, words)
        books.enter(now, words)
        found = health(history)
        assert found.keys() >= books.read
        assert found.keys() <= books.read_once - books.lost
        healthy = {uuid for uuid, is_healthy in found.items() if is_healthy}
        assert healthy <= books.read - books.wants
        assert not {u for u in healthy if now - books.erred.get(u, -1e9) < ERROR_KEPT_S}
        assert healthy >= books.read & books.blameless


@given(STEPS)
def test_everything_comes_back_by_itself(steps: Steps) -> None:
    history, now = lived(steps)
    well: tuple[Word, ...] = (("read", Repair.NONE, ""),) * len(UUIDS)
    told(history, now + 2 * ERROR_KEPT_S, well)
    assert health(history) == dict.fromkeys(UUIDS, True)


@given(STEPS)
def test_the_same_words_lead_to_the_same_judgement(steps: Steps) -> None:
    assert lived(steps)[0].cards() == lived(steps)[0].cards()
