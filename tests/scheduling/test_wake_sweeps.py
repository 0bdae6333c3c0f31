"""Blocked lines that are looked at after rows improved: none is forgotten, and none waits long."""

import itertools

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kubeshare_py.cluster.changes import ChangeLog
from kubeshare_py.domain.effects import Bind
from kubeshare_py.domain.events import BindSlotsFree, NodeSeen, PodGone, PodSeen
from kubeshare_py.domain.identity import PodKey, PodUid
from kubeshare_py.domain.pod import Pod, PodGroup
from kubeshare_py.domain.values import replace
from kubeshare_py.scheduling.iteration_budget import ROWS_WORTH_HINTS, Sweeps
from kubeshare_py.scheduling.queue.pod_queue import PodQueue, ShapeQueue, ShapeQueueKey
from kubeshare_py.scheduling.queue.pod_records import PodState
from tests.making import Driver, a_claim, a_node, a_pod, a_shape, a_share, whole
from tests.scale import examples
from tests.scheduling.queue.test_fair_share import many, many_members, of, until_quiet, victim

MAX_TURNS = 60
#: Pods of three namespaces wait in six lines.
NAMESPACES, SHAPES = "abc", 6
STEPS = st.lists(
    st.tuples(
        st.sampled_from(("add", "add", "add", "remove", "block", "improve", "turn", "turn")),
        st.integers(0, 5),
        st.integers(0, 5),
    ),
    max_size=80,
)
#: A line becomes one of several namespaces while the sweep of its own is under way.
MOVED = [
    *[("add", 0, 0), ("add", 1, 1), ("add", 2, 1), ("add", 3, 1), ("block", 0, 0)],
    # One of its lines has seen the first row that improved; others have seen both.
    *[("improve", 0, 0), ("turn", 0, 2), ("improve", 1, 0), ("turn", 0, 0), ("add", 3, 2)],
]


class SweepBooks:
    """Which improved rows each unschedulable queue was not asked about yet."""

    def __init__(self) -> None:
        self.log = ChangeLog()
        self.queue = PodQueue()
        self.sweeps = Sweeps(self.log, self.queue)
        self.unseen: dict[ShapeQueue, set[int]] = {}
        self.pods: list[PodUid] = []
        self.count = 0

    def step(self, what: str, which: int, how: int) -> None:
        match what:
            case "add":
                self.count += 1
                uid = PodUid(f"p{self.count}")
                key = ShapeQueueKey("", a_shape(a_claim(100 + which)))
                self.queue.add(uid, ((), self.count), key, NAMESPACES[how % 3])
                self.pods.append(uid)
            case "remove" if self.pods:
                self.queue.remove(self.pods.pop(which % len(self.pods)))
            case "block":
                for shape_queue in self.queue.queues():
                    if shape_queue.waiting and not shape_queue.unschedulable:
                        self.queue.mark_unschedulable(shape_queue, 0.0)
                        self.unseen[shape_queue] = set()
            case "improve":
                self.log.add(which)
                for rows in self.unseen.values():
                    rows.add(which)
            case "turn":
                self.turn(how)
            case _:
                pass  # no pod is there to be removed
        self.unseen = {
            shape_queue: rows
            for shape_queue, rows in self.unseen.items()
            if shape_queue.unschedulable
        }

    def turn(self, most: int) -> None:
        """So many lines are looked at, in either order."""
        for shape_queue in self.sweeps.begin():
            self.queue.activate(shape_queue)
        self.look(most // 2, oldest_first=False)
        self.look(most - most // 2, oldest_first=True)

    def look(self, most: int, *, oldest_first: bool) -> None:
        if not most:
            return
        for number, (sweep, shape_queue) in enumerate(
            self.sweeps.queues(oldest_first=oldest_first), 1
        ):
            if shape_queue in self.unseen:
                assert sweep.rows is not None
                self.unseen[shape_queue] -= {*sweep.rows.tolist()}
            if number == most:
                return


@examples(400)
@given(STEPS)
@example(MOVED)
def test_each_blocked_line_is_asked_about_each_row_that_improved(
    steps: list[tuple[str, int, int]],
) -> None:
    books = SweepBooks()
    for what, which, how in steps:
        books.step(what, which, how)
        if not books.sweeps.are_due:
            assert not any(books.unseen.values())
    for _ in range(100):
        books.step("turn", 0, 5)
    assert not books.sweeps.are_due
    assert not any(books.unseen.values())


def full_cluster(*floods: tuple[str, int]) -> tuple[Driver, Pod]:
    """A pod holds the only node; of each namespace so many others wait in lines of their own."""
    driver = Driver({"n1": 2})
    full = of("others", "full", "2026-01-01T00:00:00Z", a_pod("full", a_shape(whole(2))))
    driver.place(full)
    shapes = itertools.count()
    for namespace, count in floods:
        for number in range(count):
            pod = replace(many(next(shapes)), key=PodKey(namespace, f"p{number}"))
            driver.tell(PodSeen(pod))
    until_quiet(driver)
    return driver, full


def improve(driver: Driver, times: int) -> None:
    """So many rows that a look at a line costs as much as it may."""
    for number in range(ROWS_WORTH_HINTS):
        driver.tell(NodeSeen(a_node(f"small{number}", pods=times % 2)))


def turns_until_bound(driver: Driver, uid: PodUid, *, improves: bool = False) -> int:
    for turn in range(1, MAX_TURNS):
        if improves:
            improve(driver, turn)
        effects = driver.tell(BindSlotsFree(64))
        if any(isinstance(one, Bind) and one.uid == uid for one in effects):
            return turn
    return MAX_TURNS


@pytest.mark.slow
def test_a_long_sweep_of_other_lines_keeps_no_freed_card_from_a_pod_that_waits() -> None:
    driver, full = full_cluster(("hostile", 300))
    driver.seen(victim(1000))
    improve(driver, 1)
    driver.tell(BindSlotsFree(64))
    assert driver.machine.queue.shares.unswept == {"hostile"}
    driver.tell(PodGone(full.uid))
    assert turns_until_bound(driver, victim().uid) <= 2


@pytest.mark.slow
def test_rows_that_go_on_improving_keep_no_namespace_waiting_that_has_many_lines() -> None:
    driver, full = full_cluster(("few", 90), ("some", 91), ("many", 200))
    mine = of("many", "mine", "2026-01-01T00:00:02Z", a_share("mine", 500))
    driver.seen(mine)
    improve(driver, 1)
    driver.tell(BindSlotsFree(64))
    driver.tell(PodGone(full.uid))
    assert turns_until_bound(driver, mine.uid, improves=True) < MAX_TURNS


@pytest.mark.slow
def test_a_gang_is_not_forgotten_whose_cards_are_freed_while_other_gangs_are_looked_at() -> None:
    driver, full = full_cluster(("few", 1))
    group = PodGroup(name="g", headcount=2, min_available=2)
    driver.tell(
        *(PodSeen(replace(many_members(number), group=pair(number))) for number in range(400))
    )
    mine = [replace(of("mine", name, "", a_share(name)), group=group) for name in "ab"]
    driver.tell(*map(PodSeen, mine))
    until_quiet(driver)
    improve(driver, 1)
    driver.tell(BindSlotsFree(64))
    assert driver.machine.gang_cycles.unswept
    driver.tell(PodGone(full.uid))
    until_quiet(driver)
    assert {driver.machine.records[pod.uid].state for pod in mine} == {PodState.ASSUMED}


def pair(number: int) -> PodGroup:
    return PodGroup(name=f"g{number // 2}", headcount=2, min_available=2)
