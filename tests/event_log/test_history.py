"""What happened, by an event log: what a reader of all events writes down, and the scores."""

from collections.abc import Sequence

import pytest

from kubeshare_plugins import IN_TREE
from kubeshare_py.configuration.scheduler import read
from kubeshare_py.domain.effects import Bind, Effect, Evict
from kubeshare_py.domain.events import BindRefused, NodesListed, PodsListed, Refusal
from kubeshare_py.domain.values import replace
from kubeshare_py.event_log.history import HistorySubject, LoggedHistory, SubjectKind
from kubeshare_py.event_log.records import (
    LoggedEvent,
    ProfilesConfigured,
    digest_of,
    placements_of,
)
from kubeshare_py.event_log.replay import Replay
from kubeshare_py.framework.scheduler_profile import ProfilesReplaced
from kubeshare_py.scheduling.machine import MachineEvent
from kubeshare_py.views.history import HistoryEntry
from tests.event_log.histories import a_header
from tests.making import PREEMPTION, Driver, a_share
from tests.making.busy_world import FACTORIES, a_configuration, run
from tests.scale import seeds

Log = Sequence[tuple[MachineEvent, float, tuple[Effect, ...]]]


def logged(log: Log) -> list[LoggedEvent]:
    return [
        LoggedEvent(
            event=ProfilesConfigured(event.configured)
            if isinstance(event, ProfilesReplaced)
            else event,
            now=now,
            digest=digest_of(effects),
            placements=tuple(placements_of(effects)),
        )
        for event, now, effects in log
    ]


def history_of(
    replay: Replay, events: Sequence[LoggedEvent], subject: HistorySubject
) -> list[HistoryEntry]:
    history = LoggedHistory(subject)
    return [one for event in events for one in history.play(replay, event, f"{event.now:.1f}")]


@pytest.mark.parametrize("seed", seeds(40))
def test_each_placement_and_eviction_of_a_namespace_is_told_once(seed: int) -> None:
    world = run(seed)
    header = a_header(world, a_configuration(0))
    events = logged(world.log)
    tokens: dict[object, None] = {}
    evicted = 0
    for _, _, effects in world.log:
        for effect in effects:
            if isinstance(effect, Bind) and effect.key.namespace == "b":
                tokens[effect.allocation.token] = None
            evicted += isinstance(effect, Evict) and effect.key.namespace == "b"
    subject = HistorySubject(SubjectKind.NAMESPACE, "b")
    entries = history_of(Replay(header, FACTORIES), events, subject)
    assert {one.pod.partition("/")[0] for one in entries} <= {"b"}
    assert sum(one.what == "evicted" for one in entries) == evicted
    assert sum(one.what == "placed" for one in entries) == len(tokens)


class Recorder(Driver):
    """Keeps each event as an event log would have it."""

    def __init__(self, cards: dict[str, int]) -> None:
        self.log: list[tuple[MachineEvent, float, tuple[Effect, ...]]] = []
        super().__init__(cards, PREEMPTION)

    def tell(self, *events: MachineEvent) -> list[Effect]:
        found: list[Effect] = []
        for event in events:
            effects = super().tell(event)
            self.log.append((event, self.now, tuple(effects)))
            found += effects
        return found

    def history(self, kind: SubjectKind, name: str) -> list[HistoryEntry]:
        # The machine's name is in the tokens of its decisions.
        header = replace(a_header(run(0), read(PREEMPTION)), name=self.machine.name)
        return history_of(Replay(header, IN_TREE), logged(self.log), HistorySubject(kind, name))


def test_a_pods_wait_and_placement_are_told_in_order() -> None:
    driver = Recorder({"n1": 1})
    driver.fill(a_share("old", 1000))
    driver.now = 5.0
    driver.show(a_share("late", 600))
    driver.now = 9.0
    driver.gone("old")
    told = driver.history(SubjectKind.POD, "default/late")
    assert [(one.time, one.what) for one in told] == [
        ("5.0", "seen"),
        ("5.0", "waits"),
        ("9.0", "placed"),
    ]
    assert "Insufficient GPU" in told[1].message
    assert told[2].cards == ("GPU-n1-0",)


def test_a_placement_has_the_scores_that_it_had_then() -> None:
    driver = Recorder({"n1": 1, "n2": 2})
    driver.fill(a_share("first", 600))
    driver.fill(a_share("second", 300))
    then = driver.history(SubjectKind.POD, "default/second")[-1]
    driver.gone("first")
    driver.fill(a_share("third", 300))
    again = driver.history(SubjectKind.POD, "default/second")
    (placed,) = [one for one in again if one.what == "placed"]
    assert placed == then, "what comes later changes nothing"
    assert placed.chosen is not None
    assert placed.runner_up is not None
    assert (placed.chosen.node, placed.node) == (placed.node, driver.binds[0].node)
    for scored in (placed.chosen, placed.runner_up):
        assert [one.plugin for one in scored.scores] == ["BinPack"]
        assert scored.scores[0].points * scored.scores[0].weight == scored.score
    assert placed.runner_up.score < placed.chosen.score


def test_a_node_and_a_card_have_their_own_histories() -> None:
    driver = Recorder({"n1": 1, "n2": 1})
    driver.fill(a_share("a", 900), a_share("b", 900))
    node = driver.record("a").node
    assert node is not None
    driver.gone("a")
    told = driver.history(SubjectKind.NODE, node)
    assert [(one.what, one.pod) for one in told] == [
        ("node", ""),
        ("placed", "default/a"),
        ("gone", "default/a"),
    ]
    card = driver.history(SubjectKind.GPU, f"GPU-{node}")
    assert [(one.what, one.pod) for one in card] == [
        ("placed", "default/a"),
        ("gone", "default/a"),
    ]
    assert driver.history(SubjectKind.POD, "default/c") == []


def test_evictions_and_what_follows_are_told() -> None:
    driver = Recorder({"n1": 1})
    driver.fill(a_share("old", 900))
    driver.show(a_share("urgent", 900, priority=7))
    driver.gone("old")
    told = driver.history(SubjectKind.POD, "default/old")
    assert [one.what for one in told] == ["seen", "placed", "evicted", "gone"]
    assert "urgent" in told[2].message
    urgent = driver.history(SubjectKind.POD, "default/urgent")
    assert [one.what for one in urgent if one.what in ("nominated", "placed")] == [
        "nominated",
        "placed",
    ]


def test_a_placement_after_a_refused_one_is_told_though_it_is_the_same() -> None:
    driver = Recorder({"n1": 1})
    (first,) = driver.show(a_share("a", 900))
    driver.answer(first, BindRefused(Refusal.DENIED, "a policy says no"))
    (again,) = driver.later(60.0)
    assert (again.node, again.key.name) == ("n1", "a")
    told = driver.history(SubjectKind.POD, "default/a")
    assert [one.what for one in told if one.what != "waits"] == [
        "seen",
        "placed",
        "refused",
        "placed",
    ]


def test_pods_and_nodes_that_a_list_does_not_name_are_gone() -> None:
    driver = Recorder({"n1": 1, "n2": 1})
    driver.fill(a_share("a", 900), a_share("b", 900))
    left, other = driver.record("a").pod, driver.node("n2")
    driver.tell(PodsListed((left,), 1.0, to_come=frozenset(), more=True))
    driver.tell(PodsListed((a_share("c", 900),), 1.0, continues=True))
    driver.tell(NodesListed((), more=True), NodesListed((other,)))
    assert [one.what for one in driver.history(SubjectKind.POD, "default/b")][-1] == "gone"
    assert "gone" not in [one.what for one in driver.history(SubjectKind.POD, "default/a")]
    nodes = {name: driver.history(SubjectKind.NODE, name)[-1] for name in ("n1", "n2")}
    assert (nodes["n1"].what, nodes["n1"].message) == ("node", "gone")
    assert nodes["n2"].message != "gone"
