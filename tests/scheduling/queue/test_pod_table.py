"""A pod changes its state in one place, as the table says, and all that depend on it are told."""

import ast
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

import kubeshare_py.scheduling
from kubeshare_py.domain.allocation import Allocation
from kubeshare_py.domain.effects import Bind, WriteObject
from kubeshare_py.domain.events import (
    BindAsked,
    BindOutcome,
    BindRefused,
    Bound,
    NodeSeen,
    ObjectWritten,
    PodGone,
    PodSeen,
    PodsListed,
    Refusal,
    WriteOutcome,
)
from kubeshare_py.domain.identity import DecisionToken, NodeName, PodUid
from kubeshare_py.domain.pod import Pod
from kubeshare_py.domain.request import InvalidRequest
from kubeshare_py.domain.values import replace
from kubeshare_py.scheduling.queue.gangs import Gangs
from kubeshare_py.scheduling.queue.pod_queue import PodQueue, ShapeQueueKey
from kubeshare_py.scheduling.queue.pod_records import PodState, QueueMoves, Record
from kubeshare_py.scheduling.queue.pod_table import TRANSITIONS, IllegalTransition, PodTable
from tests.making import FREE, Driver, a_claim, a_group, a_node, a_shape, a_share, members
from tests.making.pre_bind import PreBindDriver, waits
from tests.scheduling.test_failing_plugins import Everywhere, at
from tests.scheduling.test_failing_plugins import driver as broken_driver

ROOT = Path(__file__).parents[3]
SCHEDULING = Path(kubeshare_py.scheduling.__file__).parent
TABLE = SCHEDULING / "queue/pod_table.py"

Pair = tuple[PodState, PodState]
LEGAL: list[Pair] = [(before, to) for before, legal in TRANSITIONS.items() for to in legal]
ILLEGAL: list[Pair] = [
    (before, to) for before in PodState for to in PodState if to not in TRANSITIONS[before]
]
INVALID = BindRefused(Refusal.INVALID, "webhook said no")
BAD_LABEL = InvalidRequest(field="label", value="x", rule="must be a number")
POD = a_share("p")
GATED = replace(POD, gates=("a", "b"))
THEIRS = replace(POD, scheduler_name="theirs")
WITH_EXTENDER = {"profiles": [{}, {"schedulerName": "theirs", "extender": True}]}


def named(pair: Pair) -> str:
    """`waiting-binding`."""
    return "-".join(state.name.lower() for state in pair)


class Follower:
    """Notes what the table says: changes of state, and pods that were removed."""

    def __init__(self) -> None:
        self.pairs: list[Pair] = []
        self.gone: list[PodUid] = []

    def changed(self, record: Record, before: PodState) -> None:
        self.pairs.append((before, record.state))

    def removed(self, uid: PodUid) -> None:
        self.gone.append(uid)


def follower_of(driver: Driver) -> Follower:
    """Of the machine's own table, which only the machine's parts see."""
    follower = Follower()
    driver.machine._state.table.follow(follower)
    return follower


class Books:
    """A table of pods alone, with all that it tells."""

    def __init__(self) -> None:
        self.queue, self.gangs, self.moves = PodQueue(), Gangs(), QueueMoves()
        self.table = PodTable(self.queue, self.gangs, self.moves)
        self.follower = Follower()
        self.table.follow(self.follower)

    def pod_in(self, state: PodState, pod: Pod = POD) -> Record:
        record = self.table.add(pod)
        record.state = state
        if state is PodState.WAITING:
            self.queue.add(pod.uid, (1,), ShapeQueueKey(pod.scheduler_name, pod.shape))
        return record


# --- the table -----------------------------------------------------------------------------------


def test_every_state_is_in_the_table_and_names_no_state_twice() -> None:
    assert TRANSITIONS.keys() == set(PodState)
    assert len(set(LEGAL)) == len(LEGAL)


@pytest.mark.parametrize("pair", ILLEGAL, ids=named)
def test_a_change_that_is_not_in_the_table_raises_and_changes_nothing(pair: Pair) -> None:
    books, (before, to) = Books(), pair
    record = books.pod_in(before)
    with pytest.raises(IllegalTransition, match=f"{before.name.lower()} -> {to.name.lower()}"):
        books.table.transition(record, to, "Event")
    assert record.state is before
    assert len(books.queue) == (before is PodState.WAITING)
    assert (books.follower.pairs, list(books.moves.counts())) == ([], [])


@pytest.mark.parametrize("pair", LEGAL, ids=named)
def test_a_change_in_the_table_is_told_to_all(pair: Pair) -> None:
    books, (before, to) = Books(), pair
    grouped = replace(POD, group=a_group(2))
    record = books.pod_in(before, grouped)
    gang = books.table.transition(record, to, "Event")
    assert record.state is to
    assert len(books.queue) == 0, "only a caller puts a pod into the queue"
    assert gang is not None
    assert (POD.uid in gang.waiting) == (to is PodState.WAITING)
    assert books.follower.pairs == [pair]
    entered = {PodState.GATED: "unschedulable", PodState.BACKOFF: "backoff"}.get(to)
    assert list(books.moves.counts()) == ([((entered, "Event"), 1)] if entered else [])


def test_a_change_that_leaves_the_state_as_it_is_is_told_too() -> None:
    books = Books()
    record = books.pod_in(PodState.BOUND, replace(POD, group=a_group(2)))
    books.table.update(record)
    assert books.gangs.of(POD.uid) is not None
    assert books.follower.pairs == [(PodState.BOUND, PodState.BOUND)]


def test_a_pod_that_is_removed_is_in_no_queue_and_no_gang() -> None:
    books = Books()
    record = books.table.add(replace(POD, group=a_group(2)))
    books.table.transition(record, PodState.WAITING)
    books.queue.add(POD.uid, (1,), ShapeQueueKey(POD.scheduler_name, POD.shape))
    assert books.table.remove(POD.uid) is record
    assert (books.table.records, len(books.queue), books.gangs.of(POD.uid)) == ({}, 0, None)
    assert books.table.remove(POD.uid) is None
    assert books.follower.gone == [POD.uid, POD.uid]


# --- histories that reach each change ------------------------------------------------------------

History = Callable[[Driver], object]


def bound_at(node: str, pod: Pod = POD) -> Pod:
    """The pod as somebody else placed it."""
    allocation = Allocation(token=DecisionToken("theirs"), dialect="sharedgpu", cards=())
    return replace(pod, node_name=NodeName(node), allocation=allocation)


def edits(count: int) -> list[Pod]:
    """The pod as it is created, and so many edits of it: all but the first are too soon."""
    return [replace(POD, label_priority=number) for number in range(count + 1)]


def shown(*pods: Pod) -> History:
    """The watch shows these views of a pod, one after the other, and nothing is decided."""
    return lambda driver: driver.tell(*(PodSeen(pod) for pod in pods))


def decided(driver: Driver) -> Bind:
    (bind,) = driver.seen(POD)
    return bind


def answered(outcome: BindOutcome) -> History:
    return lambda driver: driver.answer(decided(driver), outcome)


def edited_then_left_alone(driver: Driver) -> None:
    shown(*edits(2))(driver)
    driver.later(10)


def bound_by_another_meanwhile(driver: Driver) -> None:
    decided(driver)
    shown(bound_at("n2"))(driver)


def listed_without_its_node(driver: Driver) -> None:
    answered(Bound())(driver)
    driver.tell(PodsListed((POD,), asked_at=driver.now + 1))


def repaired(driver: Driver, problem: InvalidRequest | None = None) -> None:
    """A gang of two is bound in part, one has this problem by now, and the gang's time is over."""
    pods = members(a_group(2), 2)
    first, second = driver.show(*pods)
    driver.answer(first, INVALID)
    driver.answer(second, Bound())
    (refused,) = (pod for pod in pods if pod.uid == first.uid)
    driver.tell(PodSeen(replace(refused, problem=problem)))
    driver.now += 61
    driver.turn()


def waiting(driver: PreBindDriver) -> None:
    driver.answers[POD.key.name] = waits()
    driver.show(POD)


def waiting_then(history: History) -> Callable[[PreBindDriver], object]:
    """The pod waits for a PreBind plugin, and then this happens."""

    def run(driver: PreBindDriver) -> None:
        waiting(driver)
        history(driver)

    return run


def ready_after_all(driver: PreBindDriver) -> None:
    waiting(driver)
    driver.answers.clear()
    driver.ask_again(POD.key.name)
    driver.turn()


def asked_to_bind(driver: Driver) -> Bind:
    """kube-scheduler asks to bind its pod to a node that has room."""
    driver.tell(PodSeen(THEIRS))
    (bind,) = driver.tell(BindAsked(THEIRS.uid, THEIRS.key, NodeName("n1")))
    assert isinstance(bind, Bind)
    return bind


def asked_then(outcome: BindOutcome) -> History:
    """The Binding has this outcome, and a later list shows the pod without a node."""

    def run(driver: Driver) -> None:
        driver.answer(asked_to_bind(driver), outcome)
        driver.tell(PodsListed((THEIRS,), asked_at=driver.now + 1))

    return run


def in_line(driver: Driver) -> WriteObject:
    """The same where a device plugin takes one pod at a time; what the pod writes for its turn."""
    driver.tell(NodeSeen(a_node("n1", locks=(FREE,))), PodSeen(THEIRS))
    (write,) = driver.tell(BindAsked(THEIRS.uid, THEIRS.key, NodeName("n1")))
    assert isinstance(write, WriteObject)
    return write


def refused_its_turn(driver: Driver) -> None:
    """The API server refuses what it writes."""
    write = in_line(driver)
    outcome = WriteOutcome.REFUSED
    driver.tell(ObjectWritten(write.uid, write.token, write.write, outcome, "no"))
    driver.turn()


#: Histories in which a plugin fails when it is asked whether the pod may wait.
BROKEN: dict[Pair, History] = {
    (PodState.NEW, PodState.BACKOFF): shown(POD),
    (PodState.GATED, PodState.BACKOFF): shown(GATED, POD),
}
#: Histories in which a PreBind plugin waits for something.
PATIENT: dict[Pair, Callable[[PreBindDriver], object]] = {
    (PodState.WAITING, PodState.PREBINDING): waiting,
    (PodState.PREBINDING, PodState.GATED): waiting_then(shown(replace(POD, deleting=True))),
    (PodState.PREBINDING, PodState.WAITING): waiting_then(shown(*edits(1)[1:])),
    (PodState.PREBINDING, PodState.BACKOFF): waiting_then(lambda driver: driver.later(600)),
    (PodState.PREBINDING, PodState.ASSUMED): ready_after_all,
    (PodState.PREBINDING, PodState.BOUND): waiting_then(shown(bound_at("n1"))),
}
#: Of pods that kube-scheduler has in its queue.
DELEGATED: dict[Pair, History] = {
    (PodState.NEW, PodState.DELEGATED): shown(THEIRS),
    (PodState.DELEGATED, PodState.DELEGATED): shown(
        THEIRS, replace(THEIRS, shape=a_shape(a_claim(1)))
    ),
    (PodState.DELEGATED, PodState.PREBINDING): in_line,
    (PodState.DELEGATED, PodState.ASSUMED): asked_to_bind,
    (PodState.DELEGATED, PodState.BOUND): shown(
        THEIRS, replace(bound_at("n1"), scheduler_name=THEIRS.scheduler_name)
    ),
    (PodState.PREBINDING, PodState.DELEGATED): refused_its_turn,
    (PodState.ASSUMED, PodState.DELEGATED): asked_then(INVALID),
    (PodState.UNCONFIRMED, PodState.DELEGATED): asked_then(Bound()),
}
HISTORIES: dict[Pair, History] = {
    (PodState.NEW, PodState.GATED): shown(GATED),
    (PodState.NEW, PodState.WAITING): shown(POD),
    (PodState.NEW, PodState.BOUND): shown(bound_at("n1")),
    (PodState.GATED, PodState.GATED): shown(GATED, replace(GATED, gates=("b",))),
    (PodState.GATED, PodState.WAITING): shown(GATED, POD),
    (PodState.GATED, PodState.BOUND): shown(GATED, bound_at("n1")),
    (PodState.WAITING, PodState.GATED): shown(POD, replace(POD, deleting=True)),
    (PodState.WAITING, PodState.WAITING): shown(*edits(1)),
    (PodState.WAITING, PodState.BACKOFF): shown(*edits(2)),
    (PodState.WAITING, PodState.ASSUMED): decided,
    (PodState.WAITING, PodState.BOUND): shown(POD, bound_at("n1")),
    (PodState.BACKOFF, PodState.GATED): shown(*edits(2), replace(POD, deleting=True)),
    (PodState.BACKOFF, PodState.WAITING): edited_then_left_alone,
    (PodState.BACKOFF, PodState.BACKOFF): shown(*edits(3)),
    (PodState.BACKOFF, PodState.BOUND): shown(*edits(2), bound_at("n1")),
    (PodState.ASSUMED, PodState.GATED): partial(repaired, problem=BAD_LABEL),
    (PodState.ASSUMED, PodState.WAITING): repaired,
    (PodState.ASSUMED, PodState.BACKOFF): answered(BindRefused(Refusal.GATED, "it has gates")),
    (PodState.ASSUMED, PodState.UNCONFIRMED): answered(Bound()),
    (PodState.ASSUMED, PodState.BOUND): bound_by_another_meanwhile,
    (PodState.UNCONFIRMED, PodState.BACKOFF): listed_without_its_node,
    (PodState.UNCONFIRMED, PodState.BOUND): lambda driver: driver.place(POD),
    (PodState.BOUND, PodState.BOUND): shown(bound_at("n1"), bound_at("n2")),
}


@pytest.mark.slow
@pytest.mark.parametrize("pair", LEGAL, ids=named)
def test_a_history_reaches_each_change_that_the_table_allows(pair: Pair) -> None:
    cards = {"n1": 1, "n2": 1}
    if pair in PATIENT:
        patient = PreBindDriver(cards)
        follower = follower_of(patient)
        PATIENT[pair](patient)
        assert pair in follower.pairs
        return
    if pair in DELEGATED:
        driver = Driver(cards, WITH_EXTENDER)
    elif pair in BROKEN:
        driver = broken_driver(Everywhere(), at("preEnqueue"), cards)
    else:
        driver = Driver(cards)
    follower = follower_of(driver)
    {**HISTORIES, **BROKEN, **DELEGATED}[pair](driver)
    assert pair in follower.pairs
    assert {pair for pair in follower.pairs if pair[0] is not pair[1]} <= set(LEGAL)
    assert PodState.NEW not in {record.state for record in driver.machine.records.values()}


def test_a_pod_is_forgotten_with_its_last_event() -> None:
    driver = Driver({"n1": 1})
    follower = follower_of(driver)
    driver.place(POD)
    driver.tell(PodGone(POD.uid, stopped=True))
    assert follower.gone == [POD.uid]


# --- one place, one page -------------------------------------------------------------------------


def sets_a_state(node: ast.AST) -> bool:
    targets = node.targets if isinstance(node, ast.Assign) else []
    single = getattr(node, "target", None)
    found = [part for target in [*targets, single] if target for part in ast.walk(target)]
    return any(isinstance(one, ast.Attribute) and one.attr == "state" for one in found)


def records_a_member(node: ast.AST) -> bool:
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return False
    return node.func.attr == "record_member" or (
        isinstance(node.func.value, ast.Attribute)
        and node.func.value.attr == "records"
        and node.func.attr == "pop"
    )


@pytest.mark.slow
@pytest.mark.parametrize("path", sorted(SCHEDULING.rglob("*.py")), ids=lambda path: path.name)
def test_no_other_file_sets_a_state_or_tells_a_gang_of_one(path: Path) -> None:
    tree = ast.parse(path.read_text())
    found = [node for node in ast.walk(tree) if sets_a_state(node) or records_a_member(node)]
    assert bool(found) == (path == TABLE), [ast.unparse(node) for node in found]


def test_the_page_shows_the_table_as_it_is() -> None:
    page = (ROOT / "docs/developers/internals.md").read_text()
    rows = re.findall(r"^\| `(\w+)` \|[^|]*\| ([^|]*) \|$", page, re.MULTILINE)
    shown_there = [(name, re.findall(r"`(\w+)`", states)) for name, states in rows]
    assert shown_there == [
        (before.name.lower(), [state.name.lower() for state in legal])
        for before, legal in TRANSITIONS.items()
    ]
