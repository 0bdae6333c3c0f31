"""A plugin that fails lets what it was asked about wait, and nothing else."""

from typing import Any

import pytest

from kubeshare_plugins import IN_TREE
from kubeshare_plugins.priority_sort import PrioritySort
from kubeshare_py.cluster.columns import IntArray
from kubeshare_py.cluster.rows import Rows
from kubeshare_py.configuration.scheduler import read
from kubeshare_py.domain.allocation import Allocation
from kubeshare_py.domain.diagnosis import Shortfall
from kubeshare_py.domain.effects import LogPluginFailure, Preemptor
from kubeshare_py.domain.events import BindSlotsFree, NodeGone, NodeSeen, PodSeen
from kubeshare_py.domain.identity import NodeName
from kubeshare_py.domain.pod import Pod, Shape
from kubeshare_py.domain.values import replace
from kubeshare_py.framework.points import Depends, RowFilter, RowHeadroom
from kubeshare_py.framework.profile_making import profiles
from kubeshare_py.framework.reasons import ReasonTable
from kubeshare_py.framework.scheduler_profile import ProfilesReplaced
from kubeshare_py.plugin import NodeState, PerNodeScore
from kubeshare_py.scheduling.explain.explanation import why
from kubeshare_py.scheduling.explain.figures import pod_figures
from kubeshare_py.scheduling.machine import Machine
from kubeshare_py.scheduling.queue.pod_records import PodState
from kubeshare_py.scheduling.queue.waiting_limit import QueueRules
from tests.making import (
    Driver,
    a_claim,
    a_cluster,
    a_group,
    a_node,
    a_pod,
    a_shape,
    a_share,
    members,
    names,
    whole,
)

PRICE = "example.com/price"
INVALID = "invalid literal for int() with base 10: 'abc'"


class CheapCards(PerNodeScore):
    """The example of docs/plugins.md as it should not be written, for pods with GPUs."""

    def __init__(self) -> None:
        def points(shape: Shape, node: NodeState) -> int:
            return 0 if shape.claim is None else 100 - int(node.label(PRICE) or 100)

        super().__init__("CheapCards", points)


class Everywhere:
    """Stands at one point and fails there as long as it is broken."""

    name = "Odd"
    depends = Depends.ROW

    def __init__(self) -> None:
        self.broken = True
        self.held: list[str] = []

    def fail(self, *_: object) -> None:
        if self.broken:
            raise RuntimeError("no answer")

    def pre_enqueue(self, pod: Pod) -> str | None:
        self.fail()
        return None

    def key(self, pod: Pod) -> tuple[int | str, ...]:
        self.fail()
        return PrioritySort().key(pod)

    def permit(self, pod: Pod, node: NodeName) -> str | None:
        self.fail()
        return None

    def reserve(self, pod: Pod, node: NodeName, allocation: Allocation | None) -> None:
        self.held.append(pod.key.name)
        self.fail()

    def unreserve(self, pod: Pod, node: NodeName) -> None:
        self.held.remove(pod.key.name)
        self.fail()

    def post_filter(self, preemptor: Preemptor) -> Any:
        def rule(pod: Pod) -> bool:
            self.fail()
            return pod.priority < preemptor.priority

        return rule

    def places(self) -> tuple[str, ...]:
        self.fail()
        return ("zone",)

    def filter(self, shape: Shape, reasons: ReasonTable) -> RowFilter | None:
        return None

    def queueing_hint(self, shape: Shape, row: Rows) -> bool:
        self.fail()
        return True

    def capacity_bound(self, shape: Shape) -> RowHeadroom | None:
        def bound(rows: Rows) -> IntArray:
            self.fail()
            many: IntArray = rows.index * 0 + 1000
            return many

        return bound

    def explain(self, shape: Shape, row: Rows) -> list[Shortfall]:
        self.fail()
        return []


def told(made: Driver, name: str) -> str:
    """What the pod's owner was told last, if it is about this very pod."""
    said = made.machine.records[a_pod(name).uid].reported
    return "" if said is None else said.message


def driver(
    plugin: object, points: Any, cards: dict[str, int] | None = None, max_waiting: int = 0
) -> Driver:
    """A machine with the default profile and this plugin."""
    document = {"profiles": [{"plugins": points}]}
    made = Driver({})
    known = {**IN_TREE, "X": lambda: plugin}
    made.machine = Machine(profiles(read(document), known), "test", waiting=QueueRules(max_waiting))
    made.tell(*a_cluster({"n1": 4, "n2": 4} if cards is None else cards))
    return made


def at(*points: str) -> dict[str, Any]:
    return {point: {"enabled": [{"name": "X"}]} for point in points}


def labelled(name: str, price: str) -> NodeSeen:
    return NodeSeen(a_node(name, labels={PRICE: price}))


def test_a_label_that_a_plugin_cannot_read_holds_up_what_it_is_asked_about_alone() -> None:
    made = driver(CheapCards(), at("score"))
    made.tell(labelled("n1", "30"), labelled("n2", "abc"))
    assert names(made.show(a_share("gpu", 300), a_pod("cpu"))) == ["cpu"]
    said = f"plugin CheapCards failed on node n2: ValueError: {INVALID}"
    assert made.told == {"gpu": said}
    view = why(made.machine, made.machine.records[next(iter(made.machine.records))].pod.key)
    assert view is not None
    assert view.message == said
    assert made.machine.boundary.failures.counts == {("CheapCards", "Score"): 1}


def test_a_pod_outside_of_the_queue_for_which_a_plugin_fails_is_in_backoff_alone() -> None:
    plugin = Everywhere()
    plugin.broken = False
    made = driver(plugin, at("preEnqueue"), max_waiting=1)
    first, second = (a_pod(name, a_shape(whole(9))) for name in ("first", "second"))
    made.show(first, second)
    assert made.machine.records[second.uid].is_outside
    plugin.broken = True
    made.show(replace(second, priority=-1))
    assert made.machine.records[second.uid].state is PodState.BACKOFF
    assert sum(figures.outside for figures in pod_figures(made.machine)) == 0


def test_mending_the_label_wakes_the_pod_at_once() -> None:
    made = driver(CheapCards(), at("score"))
    made.tell(labelled("n2", "abc"))
    made.show(a_share("gpu", 300))
    made.tell(labelled("n1", "50"))
    assert made.turn() == []
    made.tell(labelled("n2", "70"))
    (bind,) = made.turn()
    assert bind.node == "n1"


def test_the_node_that_a_plugin_failed_on_may_go() -> None:
    made = driver(CheapCards(), at("score"))
    made.tell(labelled("n2", "abc"))
    made.show(a_share("gpu", 300))
    made.tell(NodeGone(NodeName("n2")))
    assert names(made.turn()) == ["gpu"]


def test_a_second_bad_node_is_told_of_when_the_first_is_mended() -> None:
    made = driver(CheapCards(), at("score"))
    made.tell(labelled("n1", "abc"), labelled("n2", "abc"))
    made.show(a_share("gpu", 300))
    assert "on node n1:" in made.told["gpu"]
    made.tell(labelled("n1", "5"))
    assert made.turn() == []
    assert "on node n2:" in made.told["gpu"]


def test_it_is_tried_again_after_a_while_and_ever_more_seldom() -> None:
    plugin = CheapCards()
    calls: list[float] = []
    made = driver(plugin, at("score"))
    original = plugin._points

    def counted(shape: Shape, node: NodeState) -> int:
        if shape.claim is not None and node.name == "n1":
            calls.append(made.now)
        return original(shape, node)

    plugin._points = counted
    made.tell(labelled("n2", "abc"))
    made.show(a_share("gpu", 300))
    made.later(300)
    assert calls == [0.0, 1.0, 3.0, 7.0, 15.0, 31.0, 63.0, 127.0, 191.0, 255.0]
    plugin._points = lambda shape, node: 1
    assert names(made.later(64)) == ["gpu"]


def test_a_gang_waits_as_its_members_do() -> None:
    made = driver(CheapCards(), at("score"))
    made.tell(labelled("n2", "abc"))
    assert made.show(*members(a_group(2), 2), a_pod("cpu"))[0].key.name == "cpu"
    said = 'pod group "g" needs 2 pods to start together; plugin CheapCards failed on node n2'
    assert made.told["g-0"].startswith(said)
    made.tell(labelled("n2", "7"))
    assert names(made.turn()) == ["g-0", "g-1"]


@pytest.mark.parametrize("point", ["preEnqueue", "permit", "reserve"])
def test_points_that_are_asked_about_pods_let_the_pod_wait(point: str) -> None:
    plugin = Everywhere()
    made = driver(plugin, at(point))
    assert made.show(a_share("p", 300)) == []
    assert told(made, "p") == "plugin Odd failed: RuntimeError: no answer"
    assert made.machine.ledger.charge_of(a_pod("p").uid) is None
    assert plugin.held == []
    plugin.broken = False
    assert names(made.later(10)) == ["p"]


def test_a_queue_sort_that_fails_lets_the_pod_wait() -> None:
    plugin = Everywhere()
    sorts = {"queueSort": {"disabled": [{"name": "*"}], "enabled": [{"name": "X"}]}}
    made = driver(plugin, sorts)
    assert made.show(a_pod("p"), *members(a_group(2), 2)) == []
    for name in ("p", "g-0", "g-1"):
        assert told(made, name) == "plugin Odd failed: RuntimeError: no answer"
    plugin.broken = False
    assert names(made.later(10)) == ["g-0", "g-1", "p"]


def test_keys_that_cannot_be_compared_let_the_pod_wait() -> None:
    class Mixed(Everywhere):
        def key(self, pod: Pod) -> Any:
            return (pod.key.name,) if pod.key.name == "odd" else (pod.priority, pod.uid)

    sorts = {"queueSort": {"disabled": [{"name": "*"}], "enabled": [{"name": "X"}]}}
    made = driver(Mixed(), sorts)
    assert names(made.show(a_pod("a"), a_pod("odd"), a_pod("b"))) == ["a", "b"]
    assert told(made, "odd") == "plugin Odd failed: answered ('odd',), not (int, str) as before"


def test_a_rule_that_fails_evicts_nobody() -> None:
    plugin = Everywhere()
    made = driver(plugin, at("postFilter"), {"n1": 1})
    low = a_share("low")
    made.bound(made.show(low), low)
    assert made.show(a_share("high", priority=5)) == []
    assert made.evicted == []
    assert ("Odd", "PostFilter") in made.machine.boundary.failures.counts
    view = why(made.machine, a_pod("high").key)
    assert view is not None
    assert view.preemption is None
    plugin.broken = False
    made.later(20)
    assert made.evicted[0] == "low"


def test_a_locality_that_fails_lets_gangs_wait() -> None:
    plugin = Everywhere()
    near = {"locality": {"disabled": [{"name": "*"}], "enabled": [{"name": "X"}]}}
    made = driver(plugin, near)
    assert names(made.show(a_pod("p"), *members(a_group(2), 2))) == ["p"]
    assert "no place for g-0: plugin Odd failed: RuntimeError: no answer" in made.told["g-0"]
    plugin.broken = False
    assert names(made.later(10)) == ["g-0", "g-1"]


def test_a_bound_that_fails_lets_gangs_wait_and_is_no_matter_to_pods() -> None:
    plugin = Everywhere()
    made = driver(plugin, at("filter"))
    assert names(made.show(a_share("p", 200), *members(a_group(2), 2))) == ["p"]
    assert "plugin Odd failed: RuntimeError: no answer" in made.told["g-0"]
    plugin.broken = False
    assert names(made.later(10)) == ["g-0", "g-1"]


def test_an_explanation_that_fails_is_said_to() -> None:
    made = driver(Everywhere(), at("filter"))
    made.show(a_pod("p", a_shape(whole(5))))
    view = why(made.machine, a_pod("p").key)
    assert view is not None
    for node in view.nodes:
        said = [one.reason for one in node.shortfalls]
        assert "plugin Odd failed: RuntimeError: no answer" in said
        assert "too few GPUs" in said


@pytest.mark.slow
def test_what_failed_is_logged_once_a_minute() -> None:
    made = driver(CheapCards(), at("score"))
    made.tell(labelled("n2", "abc"))
    logged = []
    for number in range(130):
        made.now = float(number)
        effects = made.tell(
            PodSeen(a_pod(f"p{number}", a_shape(a_claim(300), cpu=100 + number))), BindSlotsFree(9)
        )
        logged += [(made.now, one) for one in effects if isinstance(one, LogPluginFailure)]
    assert [when for when, _ in logged] == [0.0, 60.0, 120.0]
    failures = made.machine.boundary.failures.total
    assert sum(one.times for _, one in logged[:2]) <= failures
    assert logged[1][1].times >= 60
    assert logged[0][1].message.startswith("plugin CheapCards failed on node n2: ValueError: ")


def test_new_profiles_begin_anew() -> None:
    made = driver(CheapCards(), at("score"))
    made.tell(labelled("n2", "abc"))
    made.show(a_share("gpu", 300))
    made.machine.handle(ProfilesReplaced(profiles(read(None), IN_TREE)), made.now)
    assert names(made.turn()) == ["gpu"]


@pytest.mark.parametrize("answers", range(1, 6))
def test_a_plugin_that_fails_in_the_middle_of_a_plan_leaves_nothing_charged(answers: int) -> None:
    class Tired(Everywhere):
        def places(self) -> tuple[str, ...]:
            nonlocal answers
            answers -= 1
            if answers < 0:
                self.fail()
            return ("zone",)

    plugin = Tired()
    near = {"locality": {"disabled": [{"name": "*"}], "enabled": [{"name": "X"}]}}
    made = driver(plugin, near, {"n1": 2, "n2": 2})
    group = a_group(4)
    gang = [*members(group, 2), *members(group, 2, a_claim(900), start=2)]
    assert made.show(*gang) == []
    assert "plugin Odd failed" in made.told["g-0"]
    for pod in gang:
        assert made.machine.ledger.charge_of(pod.uid) is None
    plugin.broken = False
    assert len(made.later(10)) == 4
