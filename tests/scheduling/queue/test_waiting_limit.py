"""Which pods of a namespace wait in the queue, and which outside of it."""

from hypothesis import given
from hypothesis import strategies as st

from kubeshare_py.domain.effects import ReportWaiting
from kubeshare_py.domain.events import (
    BindRefused,
    PodGone,
    PodSeen,
    PodsListed,
    Refusal,
    TimePassed,
)
from kubeshare_py.domain.identity import NodeName, PodKey, PodUid
from kubeshare_py.domain.pod import Pod, PodGroup
from kubeshare_py.domain.values import replace
from kubeshare_py.scheduling.enqueue import (
    MAX_JOIN,
    OUTSIDE_PATIENCE_S,
    PODS_MOVED_A_SECOND,
)
from kubeshare_py.scheduling.explain.explanation import why
from kubeshare_py.scheduling.explain.figures import pod_figures
from kubeshare_py.scheduling.queue.pod_queue import SortKey
from kubeshare_py.scheduling.queue.pod_records import PodState
from kubeshare_py.scheduling.queue.waiting_limit import WaitingLimit
from tests.making import Driver, a_machine, a_pod, a_shape, of, whole
from tests.scale import examples

MAX = 4
Name = str | tuple[str, str]


class Books:
    """Who waits under which key, and who is inside, worked out from nothing else."""

    def __init__(self) -> None:
        self.units: dict[Name, tuple[SortKey, set[str]]] = {}

    def put(self, name: Name, uid: str, key: SortKey) -> None:
        known = self.units.get(name)
        if known is None or known[1] == {uid}:
            self.units[name] = key, {uid}
        else:
            self.units[name] = min(known[0], key), known[1] | {uid}

    def leave(self, uid: str) -> None:
        for name, (key, uids) in list(self.units.items()):
            if uid in uids and uids == {uid}:
                del self.units[name]
            elif uid in uids:
                self.units[name] = key, uids - {uid}

    def inside(self) -> set[str]:
        """The first ones, as many as may; the first of all however large it is."""
        found: set[str] = set()
        for _, uids in sorted(self.units.values(), key=lambda unit: unit[0]):
            if found and len(found) + len(uids) > MAX:
                break
            found |= uids
        return found


STEPS = st.lists(
    st.tuples(st.integers(0, 3), st.integers(0, 14), st.integers(0, 3), st.integers(0, 5)),
    min_size=1,
    max_size=60,
)


@examples(400)
@given(STEPS)
def test_inside_are_the_first_ones_as_many_as_may(steps: list[tuple[int, int, int, int]]) -> None:
    limit, books = WaitingLimit(MAX), Books()
    known: set[str] = set()
    for action, which, priority, group in steps:
        uid = PodUid(f"p{which}")
        if action == 3:
            limit.leave(uid)
            books.leave(uid)
        else:
            # A pod stays in its gang, and has its own arrival.
            number = which % 5
            gang = PodGroup(name=f"g{number}", headcount=9, min_available=2) if which > 7 else None
            pod = replace(a_pod(f"p{which}", group=gang), uid=uid)
            key: SortKey = ((priority, f"{group}"), which)
            name: Name = uid if gang is None else ("default", gang.name)
            books.put(name, uid, key)
            is_inside = limit.put(pod, key)
            assert is_inside == (uid in books.inside())
            (known.add if is_inside else known.discard)(uid)
        for unit in limit.moved:
            (known.update if unit.is_inside else known.difference_update)(unit.pods)
        limit.moved.clear()
        waiting = {one for _, uids in books.units.values() for one in uids}
        assert known & waiting == books.inside()


def test_what_came_and_went_is_not_remembered() -> None:
    limit = WaitingLimit(MAX)
    for number in range(2000):
        pod = a_pod(f"p{number}")
        limit.put(pod, ((), number))
        if number >= 10:
            limit.leave(PodUid(f"uid-p{number}"))
    limit.put(a_pod("urgent"), ((), -1))
    for number in range(10, 2000):
        limit.put(a_pod(f"p{number}"), ((), number))
        limit.leave(PodUid(f"uid-p{number - 10}"))
    (namespace,) = limit._namespaces.values()
    assert len(namespace.units) == 11
    assert len(namespace._in_order) + len(namespace._others) < 100
    assert len(namespace._lasts or ()) < 100


# --- the machine -------------------------------------------------------------------------------


class Limited(Driver):
    """A machine that lets four pods of a namespace wait in the queue."""

    def __init__(self, cards: dict[str, int], most: int = MAX) -> None:
        super().__init__(cards, machine=a_machine(max_waiting=most))

    def reports(self) -> list[tuple[str, str]]:
        """All that was said of pods so far."""
        return [(one.key.name, one.diagnosis.message) for one in of(ReportWaiting, self.effects)]

    def waiting(self) -> set[str]:
        """Names of pods in the queue."""
        lines = (uid for shape_queue in self.machine.queue.queues() for uid in shape_queue.waiting)
        in_gangs = (uid for gang in self.machine.gangs.all() for uid in gang.waiting)
        return {self.machine.records[uid].pod.key.name for uid in (*lines, *in_gangs)}

    def outside(self) -> set[str]:
        """Names of those that are told to be outside."""
        records = self.machine.records.values()
        return {one.pod.key.name for one in records if one.is_outside}


def big(name: str, **fields: object) -> Pod:
    """A pod that fits nowhere."""
    return a_pod(name, a_shape(whole(9)), **fields)


def names(*numbers: int) -> set[str]:
    return {f"p{number}" for number in numbers}


def test_pods_beyond_the_limit_wait_outside_and_are_told_once() -> None:
    driver = Limited({"n1": 1})
    for number in range(7):
        driver.tell(PodSeen(big(f"p{number}")))
        driver.turn()
    assert driver.waiting() == names(0, 1, 2, 3)
    assert driver.outside() == names(4, 5, 6)
    assert not any(pod in driver.outside() for pod, _ in driver.reports())
    view = why(driver.machine, PodKey("default", "p5"))
    driver.now += OUTSIDE_PATIENCE_S
    driver.turn()
    said = [text for pod, text in driver.reports() if pod in driver.outside()]
    assert len(said) == 3
    assert {*said} == {
        "as many pods of namespace default wait already as are tried at a time (4, "
        "maxWaitingPodsPerNamespace): it joins them when one of those before it gets a place or "
        "goes"
    }
    assert view is not None
    assert view.message == said[0]
    figures = [*pod_figures(driver.machine)][-1]
    assert (figures.outside, figures.gated, figures.unschedulable) == (3, 0, 4)
    driver.tell(*(PodSeen(big(f"p{number}", stale_results=("x",))) for number in range(7)))
    driver.now += 3600
    driver.tell(TimePassed())
    driver.turn()
    assert len([pod for pod, _ in driver.reports() if pod in driver.outside()]) == 3


def test_the_next_one_enters_when_one_leaves() -> None:
    driver = Limited({"n1": 1})
    driver.tell(*(PodSeen(big(f"p{number}")) for number in range(7)))
    driver.turn()
    driver.tell(PodGone(PodUid("uid-p2")))
    driver.turn()
    assert driver.waiting() == names(0, 1, 3, 4)
    # Gated pods and those that are being deleted do not wait.
    driver.tell(PodSeen(big("p0", deleting=True)))
    driver.turn()
    assert driver.waiting() == names(1, 3, 4, 5)
    driver.tell(PodSeen(big("p1", node_name=NodeName("n1"))))
    driver.turn()
    assert driver.waiting() == names(3, 4, 5, 6)
    assert driver.outside() == set()


def test_one_that_stands_before_them_takes_the_place_of_the_last() -> None:
    driver = Limited({"n1": 1})
    driver.tell(*(PodSeen(big(f"p{number}")) for number in range(6)))
    driver.tell(PodSeen(big("p9", priority=5)))
    driver.turn()
    assert driver.waiting() == names(9, 0, 1, 2)
    assert driver.outside() == names(3, 4, 5)


def test_other_namespaces_have_their_own() -> None:
    driver = Limited({"n1": 1})
    driver.tell(*(PodSeen(big(f"p{number}")) for number in range(6)))
    other = big("other")
    driver.tell(PodSeen(replace(other, key=PodKey("victim", "other"))))
    driver.turn()
    assert driver.waiting() == names(0, 1, 2, 3) | {"other"}


def test_pods_that_can_be_placed_flow_through_in_order() -> None:
    driver = Limited({"n1": 8})
    pods = [a_pod(f"p{number}", a_shape(whole(1))) for number in range(12)]
    driver.tell(*(PodSeen(pod) for pod in pods))
    assert [bind.key.name for bind in driver.turn()] == [f"p{number}" for number in range(8)]
    assert driver.waiting() == names(8, 9, 10, 11)
    assert driver.outside() == set()


def test_one_whose_binding_was_refused_stands_where_it_stood() -> None:
    driver = Limited({"n1": 1})
    (bind,) = driver.seen(a_pod("p0"))
    driver.tell(*(PodSeen(big(f"p{number}")) for number in range(1, 7)))
    driver.turn()
    assert driver.waiting() == names(1, 2, 3, 4)
    driver.answer(bind, BindRefused(Refusal.INVALID, "no"))
    driver.now += 100
    assert [one.key.name for one in driver.turn()] == ["p0"]
    assert driver.waiting() == names(1, 2, 3, 4)


def test_a_restart_changes_nothing() -> None:
    driver, again = Limited({"n1": 1}), Limited({"n1": 1})
    pods = [big(f"p{n}", priority=n % 3, created=f"2026-01-01T00:00:{n:02}Z") for n in range(20)]
    for pod in reversed(pods):
        driver.tell(PodSeen(pod))
    driver.tell(PodGone(pods[17].uid))
    driver.turn()
    again.tell(PodsListed(tuple(pod for pod in pods if pod is not pods[17]), 0.0))
    again.turn()
    assert again.waiting() == driver.waiting() == names(2, 5, 8, 11)


def gang(name: str, size: int, start: int = 0, **fields: object) -> list[Pod]:
    group = PodGroup(name=name, headcount=size, min_available=size)
    shape = a_shape(whole(1))
    return [a_pod(f"{name}{at}", shape, group=group, **fields) for at in range(start, size)]


def test_a_gang_enters_whole_or_not_at_all() -> None:
    driver = Limited({"n1": 0})
    driver.tell(*(PodSeen(big(f"p{number}")) for number in range(2)))
    driver.tell(*(PodSeen(pod) for pod in gang("g", 3)))
    driver.tell(PodSeen(big("p7")))
    driver.turn()
    assert driver.waiting() == names(0, 1)
    assert driver.outside() == {"g0", "g1", "g2", "p7"}
    driver.now += OUTSIDE_PATIENCE_S
    driver.turn()
    assert {text for pod, text in driver.reports() if pod == "g1"} == {
        "with its pod group more pods of namespace default would wait than are tried at a time "
        "(4, maxWaitingPodsPerNamespace): the group joins them as a whole when enough of those "
        "before it get a place or go"
    }
    driver.tell(PodGone(PodUid("uid-p0")))
    driver.turn()
    assert driver.waiting() == {"p1", "g0", "g1", "g2"}
    assert driver.outside() == {"p7"}


def test_a_gang_beyond_the_limit_enters_alone_and_is_placed() -> None:
    driver = Limited({"n1": 8})
    driver.tell(PodSeen(big("p0")))
    driver.tell(*(PodSeen(pod) for pod in gang("g", 6)))
    driver.tell(PodSeen(big("p1")))
    assert driver.turn() == []
    assert driver.waiting() == names(0)
    driver.tell(PodGone(PodUid("uid-p0")))
    assert {bind.key.name for bind in driver.turn()} == {f"g{at}" for at in range(6)}
    assert driver.waiting() == names(1)


def test_a_large_gang_does_not_come_and_go_with_every_pod_before_it() -> None:
    driver = Limited({"n1": 0}, most=2 * MAX_JOIN)
    driver.tell(*(PodSeen(pod) for pod in gang("g", 2 * MAX_JOIN)))
    driver.turn()
    urgent = big("p0", priority=5)
    for _ in range(3):  # each moves the whole gang, unless its moves pause
        driver.tell(PodSeen(urgent))
        driver.turn()
        assert len(driver.outside()) == 2 * MAX_JOIN
        driver.tell(PodGone(urgent.uid))
        driver.turn()
        assert len(driver.outside()) == 2 * MAX_JOIN
    driver.now += 2 * MAX_JOIN / PODS_MOVED_A_SECOND
    driver.turn()
    assert len(driver.waiting()) == 2 * MAX_JOIN


def test_without_a_limit_all_wait_in_the_queue() -> None:
    driver = Limited({"n1": 1}, most=0)
    driver.tell(*(PodSeen(big(f"p{number}")) for number in range(50)))
    driver.turn()
    assert len(driver.waiting()) == 50


MOVES = st.lists(
    st.tuples(st.integers(0, 5), st.integers(0, 11), st.integers(0, 2)), min_size=1, max_size=40
)


@examples(80)
@given(MOVES)
def test_whatever_happens_no_pod_is_lost_and_no_namespace_has_more(
    moves: list[tuple[int, int, int]],
) -> None:
    driver, there = Limited({"n1": 2}), dict[str, Pod]()
    for action, which, what in moves:
        name = f"p{which}"
        group = PodGroup(name=f"g{which % 2}", headcount=2, min_available=2) if which > 7 else None
        shape = a_shape(whole(1 if what else 9))
        pod = a_pod(name, shape, group=group, priority=what if which < 4 else 0)
        if action < 3 and name not in there:
            there[name] = pod
            driver.tell(PodSeen(pod))
        elif action == 3 and name in there:
            driver.tell(PodGone(there.pop(name).uid))
        elif action == 4 and name in there and there[name].node_name is None:
            there[name] = replace(there[name], priority=what)
            driver.tell(PodSeen(there[name]))
        driver.now += 30
        for bind in driver.turn():
            name = bind.key.name
            there[name] = replace(there[name], node_name=bind.node, allocation=bind.allocation)
            driver.tell(PodSeen(there[name]))
        driver.turn()
        unbound = {name for name, pod in there.items() if pod.node_name is None}
        assert len(driver.waiting()) <= MAX
        assert driver.waiting() | driver.outside() == unbound
        assert not driver.waiting() & driver.outside()
        assert not driver.outside() or driver.waiting()
        for group_name in ("g0", "g1"):
            members = {n for n in unbound if (g := there[n].group) and g.name == group_name}
            assert members <= driver.waiting() or not members & driver.waiting()
        states = {record.state for record in driver.machine.records.values() if record.is_outside}
        assert states <= {PodState.GATED}
