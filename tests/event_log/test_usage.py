"""What event logs say was held equals books of its own, across restarts, replicas and gaps."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubeshare_py.domain.allocation import Allocation, CardCharge
from kubeshare_py.domain.events import (
    BindSlotsFree,
    Event,
    InventoryRead,
    NodesListed,
    PodGone,
    PodSeen,
    PodsListed,
)
from kubeshare_py.domain.identity import DecisionToken, GpuUuid, NodeName, PodKey, PodUid
from kubeshare_py.domain.pod import Pod
from kubeshare_py.domain.values import replace
from kubeshare_py.event_log.records import LoggedEvent, LogHeader, event_record, record_of
from kubeshare_py.event_log.usage import (
    INVENTORY_MS,
    HeldHistory,
    HeldInterval,
    columns_of,
    exact,
    usage,
)
from kubeshare_py.scheduling.explain.held_time import OTHERS, HeldTime
from kubeshare_py.scheduling.machine import Machine
from tests.event_log.histories import a_header, records_of
from tests.making import GIB, a_gpu, a_node, a_pod
from tests.making.busy_world import BusyWorld, a_configuration
from tests.making.world import GANG_ACTIONS, Step
from tests.scale import examples, seeds
from tests.scheduling.pod_groups.test_any_gang_history import some_gang_steps

#: When the machine's time was 0 (s since 1970).
WALL = 1_700_000_000
EPOCH_MS = WALL * 1000
MODELS = ("A100", "T4")


def bound(
    name: str, milli: int = 500, card: int = 0, namespace: str = "default", owner: str = ""
) -> Pod:
    """A pod on a card of n1."""
    uuid, model = GpuUuid(f"GPU-{card}"), MODELS[card % 2]
    charge = CardCharge(uuid, milli, milli * GIB, model)
    return replace(
        a_pod(name),
        key=PodKey(namespace, name),
        node_name=NodeName("n1"),
        owner_title=owner,
        allocation=Allocation(token=DecisionToken(f"t-{name}"), cards=(charge,)),
    )


def a_session(*events: tuple[float, Event], began: float = 0.0) -> list[LogHeader | LoggedEvent]:
    """A process that knew nodes and cards at once, and these events, each with its time (s).

    Its own clock began an hour before it, as those of other machines do.
    """
    header = LogHeader(
        name="s",
        version="0.1",
        session="s",
        file=0,
        now=3600.0,
        wall=WALL + began,
        configuration=a_configuration(0),
    )
    cards = tuple(a_gpu(f"GPU-{n}", index=n, model=MODELS[n % 2]) for n in range(4))
    first = NodesListed((a_node("n1"),)), InventoryRead(((NodeName("n1"), cards),))
    told = [*((began, one) for one in first), *events]
    return [
        header,
        *(
            LoggedEvent(event=event, now=3600.0 + at - began, digest=0, placements=())
            for at, event in told
        ),
    ]


def read(
    *sessions: Sequence[LogHeader | LoggedEvent],
) -> tuple[HeldHistory, list[HeldInterval]]:
    history, found = HeldHistory(), list[HeldInterval]()
    for header, *events in sessions:
        assert isinstance(header, LogHeader)
        logged = (one for one in events if isinstance(one, LoggedEvent))
        found += history.session(header, logged)
    return history, [*found, *history.rest()]


def times(intervals: Iterable[HeldInterval]) -> list[tuple[str, float, float]]:
    """Names with their times, in seconds since the first session began."""
    return sorted(
        (one.key.name, (one.begin_ms - EPOCH_MS) / 1000, (one.end_ms - EPOCH_MS) / 1000)
        for one in intervals
    )


def seen(*pods: Pod) -> PodsListed:
    return PodsListed(pods, 0.0)


def gone(name: str) -> PodGone:
    return PodGone(PodUid(f"uid-{name}"), stopped=True)


def test_a_pod_holds_its_card_from_when_it_is_seen_bound_until_it_is_gone() -> None:
    a = bound("a")
    unbound = replace(a, node_name=None, allocation=None)
    _, found = read(
        a_session(
            (0.0, seen()),
            (1.0, PodSeen(unbound)),
            (2.0, PodSeen(a)),
            (3.5, PodSeen(replace(a, deleting=True))),
            (7.25, gone("a")),
            (9.0, BindSlotsFree(1)),
        )
    )
    assert times(found) == [("a", 2.0, 7.25)]
    sums = usage(found, columns_of(["pod"]), 0, EPOCH_MS * 2)
    (row,) = sums.values()
    assert row.card_seconds == Decimal("2.625")
    assert row.byte_seconds == Decimal("5.25") * 500 * GIB


def test_a_pod_that_is_still_there_after_a_restart_held_its_card_all_the_while() -> None:
    a = bound("a")
    history, found = read(
        a_session((0.0, seen()), (1.0, PodSeen(a)), (10.0, BindSlotsFree(1))),
        a_session((32.0, seen(a)), (40.0, gone("a")), began=30.0),
    )
    assert times(found) == [("a", 1.0, 40.0)]
    (gap,) = history.gaps
    assert (gap.begin_ms, gap.end_ms) == (EPOCH_MS + 10_000, EPOCH_MS + 32_000)
    assert (gap.ended, gap.began, gap.milli_ms) == (0, 0, 0)


def test_what_began_or_ended_without_a_log_is_said_and_not_guessed() -> None:
    history, found = read(
        a_session((0.0, seen()), (1.0, PodSeen(bound("a", 300))), (10.0, BindSlotsFree(1))),
        a_session((30.0, seen(bound("b", 200, card=1))), (40.0, gone("b")), began=30.0),
    )
    assert times(found) == [("a", 1.0, 10.0), ("b", 30.0, 40.0)]
    (gap,) = history.gaps
    assert (gap.ended, gap.began) == (1, 1)
    assert (gap.milli_ms, gap.byte_ms) == (500 * 20_000, 500 * GIB * 20_000)


def test_of_two_processes_that_write_at_a_time_one_counts() -> None:
    a, b = bound("a"), bound("b", card=1)
    history, found = read(
        a_session((0.0, seen(a)), (20.0, gone("a")), (30.0, BindSlotsFree(1))),
        # It saw the end of `a` a little later, and `b` before the other one ended.
        a_session(
            (5.0, seen(a)), (20.2, gone("a")), (30.0, PodSeen(b)), (50.0, gone("b")), began=5.0
        ),
        a_session((10.0, seen(a)), (21.0, gone("a")), began=10.0),
    )
    assert times(found) == [("a", 0.0, 20.0), ("b", 30.0, 50.0)]
    assert history.gaps == []


def test_a_process_that_has_not_seen_all_pods_says_nothing_yet() -> None:
    a, b = bound("a"), bound("b", card=1)
    first = replace(seen(a), to_come=frozenset({b.uid}), more=True)
    second = replace(seen(b), continues=True)
    history, found = read(
        a_session((0.0, seen(a, b)), (10.0, BindSlotsFree(1))),
        a_session((12.0, first), (14.0, second), (20.0, BindSlotsFree(1)), began=11.0),
    )
    assert times(found) == [("a", 0.0, 20.0), ("b", 0.0, 20.0)]
    assert [(one.begin_ms, one.end_ms) for one in history.gaps] == [
        (EPOCH_MS + 10_000, EPOCH_MS + 14_000)
    ]


def test_cards_that_are_never_read_are_not_waited_for_without_end() -> None:
    header, nodes, _, *others = a_session(
        (0.0, seen(bound("a"))), (INVENTORY_MS / 1000, BindSlotsFree(1)), (70.0, BindSlotsFree(1))
    )
    history, found = read([header, nodes, *others])
    assert times(found) == [("a", INVENTORY_MS / 1000, 70.0)]
    assert history.begin_ms == EPOCH_MS + INVENTORY_MS


def test_a_pod_of_the_same_name_is_another_one() -> None:
    second = replace(bound("a"), uid=PodUid("other"))
    _, found = read(
        a_session(
            (0.0, seen(bound("a"))), (4.0, gone("a")), (5.0, PodSeen(second)), (9.0, seen(second))
        )
    )
    assert times(found) == [("a", 0.0, 4.0), ("a", 5.0, 9.0)]
    (row,) = usage(found, columns_of(["pod"]), 0, EPOCH_MS * 2).values()
    assert len(row.uids) == 2


def test_cards_of_a_pod_deleted_by_force_are_its_own_until_it_lingers_no_more() -> None:
    a = replace(bound("a"), grace_s=10)
    _, found = read(
        a_session(
            (0.0, seen(a)),
            (4.0, PodGone(a.uid)),
            (13.9, BindSlotsFree(1)),
            (14.5, BindSlotsFree(1)),
            (20.0, BindSlotsFree(1)),
        )
    )
    assert times(found) == [("a", 0.0, 14.5)]


def test_sums_by_any_columns_within_a_time() -> None:
    a = bound("a", 250, card=0, namespace="x", owner="job j")
    b = bound("b", 500, card=1, namespace="x", owner="job j")
    c = bound("c", 1000, card=2, namespace="y")
    _, found = read(a_session((0.0, seen(a, b, c)), (100.0, BindSlotsFree(1))))
    since, until = EPOCH_MS + 10_000, EPOCH_MS + 30_000

    def cards(*by: str, namespace: str = "") -> dict[tuple[str, ...], Decimal]:
        rows = usage(found, columns_of(by), since, until, namespace)
        return {key: row.card_seconds for key, row in rows.items()}

    assert cards() == {(): Decimal(35)}
    assert cards("namespace") == {("x",): Decimal(15), ("y",): Decimal(20)}
    assert cards("owner") == {("x", "job j"): Decimal(15), ("y", ""): Decimal(20)}
    assert cards("model") == {("A100",): Decimal(25), ("T4",): Decimal(10)}
    assert cards("namespace", "model", namespace="x") == {
        ("x", "A100"): Decimal(5),
        ("x", "T4"): Decimal(10),
    }
    assert cards("card", namespace="y") == {("n1", "GPU-2", "A100"): Decimal(20)}
    assert cards("node", "pod", namespace="y") == {("n1", "y", "c"): Decimal(20)}
    with pytest.raises(KeyError):
        columns_of(["nothing"])


@given(st.integers(0, 10**30))
def test_amounts_are_exact(amount: int) -> None:
    assert Fraction(exact(amount, 10**6)) == Fraction(amount, 10**6)


# Any history: pods that come and go at any time, and processes that write at any times.


@dataclass(frozen=True)
class Life:
    """A pod's amounts, and from when to when (ms) it is bound."""

    name: str
    milli: int
    card: int
    begin: int
    end: int

    @property
    def pod(self) -> Pod:
        return bound(self.name, self.milli, self.card)

    def is_there(self, at: int) -> bool:
        return self.begin <= at < self.end


_MOMENTS = st.integers(0, 3_000)


@st.composite
def lives(draw: st.DrawFn) -> list[Life]:
    found = []
    for number in range(draw(st.integers(1, 8))):
        begin, end = sorted((draw(_MOMENTS), draw(_MOMENTS)))
        milli = draw(st.sampled_from((1, 333, 500, 1000)))
        found.append(Life(f"p{number}", milli, draw(st.integers(0, 3)), begin, end + 1))
    return found


#: From when to when (ms) processes write; the second number is how long.
PROCESSES = st.lists(st.tuples(_MOMENTS, st.integers(0, 1_500)), min_size=1, max_size=5)


def written(pods: Sequence[Life], begin: int, end: int) -> list[LogHeader | LoggedEvent]:
    """What a process writes that lists the pods when it begins."""
    told: list[tuple[int, int, Event]] = [
        (begin, 0, seen(*(one.pod for one in pods if one.is_there(begin))))
    ]
    for one in pods:
        if begin < one.begin <= end:
            told.append((one.begin, 2, PodSeen(one.pod)))
        if begin < one.end <= end:
            told.append((one.end, 1, gone(one.name)))
    told.append((end, 3, BindSlotsFree(1)))
    told.sort(key=lambda entry: entry[:2])
    return a_session(*((at / 1000, event) for at, _, event in told), began=begin / 1000)


def expected(
    pods: Sequence[Life], processes: Sequence[tuple[int, int]]
) -> dict[tuple[str, str], int]:
    """Millisecond by millisecond: a pod counts while it is there and a log says so.

    In a gap it counts if it is there at its end as well as when it began: the last event that is
    written shows what there is at that very moment.
    """
    first, last = min(processes)[0], max(end for _, end in processes)
    gaps: dict[int, tuple[int, int]] = {}
    for at in range(first, last):
        if not any(begin <= at < end for begin, end in processes):
            before = max(end for _, end in processes if end <= at)
            gaps[at] = before, min(begin for begin, _ in processes if begin > at)
    sums: dict[tuple[str, str], int] = defaultdict(int)
    for one in pods:
        for at in range(max(one.begin, first), min(one.end, last)):
            if at not in gaps or all(map(one.is_there, gaps[at])):
                sums["default", MODELS[one.card % 2]] += one.milli
    return dict(sums)


@examples(60)
@given(lives(), PROCESSES)
def test_any_history_has_the_sums_of_books_of_its_own(
    pods: list[Life], processes: list[tuple[int, int]]
) -> None:
    spans = sorted((begin, begin + length) for begin, length in processes)
    _, found = read(*(written(pods, *span) for span in spans))
    rows = usage(found, columns_of(["namespace", "model"]), 0, EPOCH_MS * 2)
    assert {key: row.milli_ms for key, row in rows.items()} == expected(pods, spans)
    for row in rows.values():
        assert row.byte_ms == row.milli_ms * GIB
    _expect_apart(found)


def _expect_apart(intervals: Iterable[HeldInterval]) -> None:
    """No pod counts twice at a time, and none is cut in two where it goes on."""
    by_pod: dict[tuple[PodUid, GpuUuid], list[HeldInterval]] = defaultdict(list)
    for one in intervals:
        by_pod[one.uid, one.card].append(one)
    for parts in by_pod.values():
        parts.sort(key=lambda one: one.begin_ms)
        for before, after in pairwise(parts):
            assert before.end_ms < after.begin_ms


# The scheduler's own counters, in histories with all that goes on at once.


class CountedWorld(BusyWorld):
    """Decides after each step, as the process does, and counts as its metrics do."""

    def __init__(self) -> None:
        super().__init__(CountedWorld.count_event)
        self.held = HeldTime(self.machine)
        self.held.begin(0.0)

    def count_event(self: BusyWorld) -> None:
        assert isinstance(self, CountedWorld)
        self.held.handled(self.log[-1][0], lambda: self.now)

    def step(self, step: Step) -> None:
        super().step(step)
        self.tell(BindSlotsFree(64))


def test_the_log_of_a_busy_scheduler_has_the_sums_of_its_counters() -> None:
    whole = 0
    for seed in seeds(60):
        world = CountedWorld()
        steps = some_gang_steps(seed, 90)
        world.follow(one for one in steps if one[0] % GANG_ACTIONS != GANG_ACTIONS - 1)
        header, *events = map(record_of, records_of(a_header(world), world.log))
        _, found = read([header, *events])
        rows = usage(found, columns_of(["namespace", "model"]), 0, EPOCH_MS * 2)
        of_log = {
            pair: (float(row.card_seconds), float(row.byte_seconds)) for pair, row in rows.items()
        }
        counted = world.held.seconds(world.now).items()
        assert of_log == {pair: (one.card_s, one.byte_s) for pair, one in counted if one.card_s}
        whole += sum(row.milli_ms for row in rows.values())
    assert whole > 0


def test_a_record_keeps_what_a_bound_pod_belongs_to() -> None:
    pod = bound("a", owner="job j")
    found = record_of(event_record(PodSeen(pod), 0.0, ()))
    assert isinstance(found, LoggedEvent)
    assert found.event == PodSeen(pod)


def test_counters_begin_with_the_leadership_and_have_a_most_of_pairs() -> None:
    machine = Machine((), "x")
    held = HeldTime(machine, most_pairs=2)

    def tell(at: float, event: Event) -> None:
        machine.handle(event, at)
        held.handled(event, lambda: at)

    tell(0.0, seen(bound("a", namespace="a"), bound("b", 250, namespace="b")))
    assert held.seconds(5.0) == {}
    held.begin(10.0)
    tell(12.0, PodSeen(bound("c", 100, namespace="c")))
    tell(12.0, PodSeen(bound("d", 100, namespace="d", card=1)))
    tell(14.0, gone("c"))
    found = {pair: one.card_s for pair, one in held.seconds(20.0).items()}
    assert found == {
        ("a", "A100"): pytest.approx(5.0),
        ("b", "A100"): pytest.approx(2.5),
        OTHERS: pytest.approx(0.2 + 0.8),
    }
