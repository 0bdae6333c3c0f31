"""At every extension point: what fails costs the pods that it was asked about, and nothing else."""

from collections.abc import Callable
from typing import Any, cast

import numpy as np
import pytest

from kubeshare_plugins import IN_TREE
from kubeshare_plugins.priority_sort import PrioritySort
from kubeshare_py.configuration.scheduler import ConfigurationError, read
from kubeshare_py.domain.effects import LogPluginFailure
from kubeshare_py.framework.boundary import SLOW_TURN_S
from kubeshare_py.framework.profile_making import PluginFactory, profiles
from kubeshare_py.plugin import (
    READY,
    CardPredicate,
    CardPreselection,
    CardSetScore,
    Depends,
    Pod,
    Preemptor,
    ReasonTable,
    Rejected,
    Rows,
    Shape,
    Wait,
)
from kubeshare_py.scheduling.explain.explanation import why
from kubeshare_py.scheduling.machine import Machine
from tests.making import (
    Driver,
    a_claim,
    a_cluster,
    a_group,
    a_pod,
    a_shape,
    a_share,
    members,
    names,
    of,
    whole,
)

#: Pods that the plugin fails for ask for so much cpu.
BAD_CPU = 777
ONE, TWO = a_claim(300), whole(2)
Fault = Callable[..., Any]


def raises(*_: object) -> Any:
    raise KeyError("no answer")


def exits(*_: object) -> Any:
    raise SystemExit("no scheduler without me")


def answers(value: object) -> Fault:
    return lambda *_: value


def of_rows(dtype: type, extra: int = 0, value: int = 0) -> Fault:
    """A function that answers an array with a line for each row, and `extra` ones."""
    return answers(lambda rows, *_: np.full(len(rows.index) + extra, value, dtype))


def of_cards(dtype: type, extra: int = 0, value: int = 0) -> Fault:
    return answers(
        lambda rows, *_: np.full((len(rows.index), rows.flags.shape[1] + extra), value, dtype)
    )


def predicate(fits: Any, reasons: Any = None) -> Fault:
    return answers(CardPredicate(fits, reasons or (lambda rows: rows.flags)))


NO_FUNCTION = [raises, exits, answers(7), answers("x"), answers(object())]
ROWS = [
    answers(raises),
    answers(exits),
    of_rows(np.int64, 1),
    of_rows(np.float64),
    of_rows(np.bool_),
]
CARDS = [answers(raises), of_cards(np.int64, 1), of_cards(np.float64), of_cards(np.object_)]
WRONG_WAITS = [
    Wait(**{"sentence": "x", **wrong})
    for wrong in cast(
        "list[dict[str, Any]]",
        [
            {"sentence": 7},
            {"late": None},
            {"writes": ("write",)},
            {"on": []},
            {"for_s": 0},
            {"for_s": "1"},
        ],
    )
]
#: Of each point: the claim of the pods that it is asked about, and what it may do wrong.
FAULTS: dict[str, tuple[Any, list[Fault]]] = {
    "pre_enqueue": (ONE, [raises, exits, answers(7), answers(b"x"), answers(["x"])]),
    "key": (ONE, [raises, answers(None), answers(7), answers((1.5,)), answers(("x",))]),
    "pre_filter": (ONE, [raises]),
    "filter": (ONE, [*NO_FUNCTION, *ROWS, of_rows(np.int64, 0, -1), of_rows(np.int64, 0, 1 << 40)]),
    "card_filter": (
        ONE,
        [
            *NO_FUNCTION,
            answers(CardPredicate(raises, raises, -1)),
            predicate(raises),
            predicate(lambda rows: rows.flags),
            predicate(lambda rows: rows.flags[:, :1] == 0),
            predicate(lambda rows: None),
        ],
    ),
    "card_score": (ONE, [*NO_FUNCTION, *CARDS, of_cards(np.int64, 0, -1)]),
    "card_set": (
        TWO,
        [
            answers(CardSetScore(choose))
            for choose in (raises, *map(answers, ((0, 0), (0, 99), [0, 1], (0,))))
        ]
        + [
            answers(CardPreselection(stay))
            for stay in (raises, answers(None), lambda rows, fits: fits & False)
        ],
    ),
    "score": (ONE, [*NO_FUNCTION, *ROWS, of_rows(np.int64, 0, 101), of_rows(np.int64, 0, -1)]),
    "normaliser": (ONE, [raises, answers(None), answers(np.zeros(99)), lambda raw: raw + 101]),
    "permit": (ONE, [raises, answers(False), answers(3)]),
    "reserve": (ONE, [raises, exits]),
    "pre_bind": (
        ONE,
        [
            *(raises, exits, answers(None), answers("x"), answers(Rejected(cast("Any", 7)))),
            *(answers(wrong) for wrong in WRONG_WAITS),
        ],
    ),
}
#: The points' names in a profile, where they differ.
LISTED_AT = {
    "pre_enqueue": "preEnqueue",
    "key": "queueSort",
    "pre_filter": "filter",
    "card_filter": "cardFilter",
    "card_score": "cardScore",
    "card_set": "cardScore",
    "normaliser": "score",
    "pre_bind": "preBind",
}
CASES = [
    pytest.param(point, claim, fault, id=f"{point}-{number}")
    for point, (claim, faults) in FAULTS.items()
    for number, fault in enumerate(faults)
]


class Faulty:
    """Is at fault at one point for pods with BAD_CPU, as long as it is broken."""

    name = "Odd"
    depends = Depends.ROW

    def __init__(self, point: str, fault: Fault) -> None:
        self.point, self.fault, self.broken = point, fault, True
        self.asked: Shape | None = None
        if point == "normaliser":
            self.normaliser: Any = self.normalise
        else:
            self.normaliser = None
        if point == "pre_filter":
            self.pre_filter = lambda shape: self.at("pre_filter", shape, (), lambda: None)

    def at(self, point: str, shape: Shape, args: tuple[Any, ...], right: Callable[[], Any]) -> Any:
        bad = ("cpu", BAD_CPU) in shape.resources
        return self.fault(*args) if self.broken and bad and point == self.point else right()

    def pre_enqueue(self, pod: Pod) -> Any:
        return self.at("pre_enqueue", pod.shape, (pod,), lambda: None)

    def key(self, pod: Pod) -> Any:
        return self.at("key", pod.shape, (pod,), lambda: PrioritySort().key(pod))

    def filter(self, shape: Shape, reasons: ReasonTable, *_: object) -> Any:
        return self.at("filter", shape, (shape, reasons), lambda: None)

    def card_filter(self, shape: Shape, reasons: ReasonTable, *_: object) -> Any:
        return self.at("card_filter", shape, (shape, reasons), lambda: None)

    def card_score(self, shape: Shape, *_: object) -> Any:
        point = "card_set" if self.point == "card_set" else "card_score"
        return self.at(point, shape, (shape,), lambda: None)

    def score(self, shape: Shape, *_: object) -> Any:
        self.asked = shape

        def right(rows: Rows, cards: object) -> Any:
            self.asked = shape
            return np.zeros(len(rows.index), np.int64)

        return self.at("score", shape, (shape,), lambda: right)

    def normalise(self, raw: Any) -> Any:
        return self.fault(raw) if self.broken and len(raw) and self.last_bad else raw * 0

    #: Whether the pod that is decided about now is a bad one; normalisers get no shape.
    last_bad = False

    def permit(self, pod: Pod, node: str) -> Any:
        return self.at("permit", pod.shape, (pod, node), lambda: None)

    def reserve(self, pod: Pod, node: str, allocation: object) -> None:
        self.at("reserve", pod.shape, (pod, node, allocation), lambda: None)

    def unreserve(self, pod: Pod, node: str) -> None:
        self.at("reserve", pod.shape, (pod, node), lambda: None)

    def pre_bind(self, pod: Pod, row: Rows, placement: object) -> Any:
        return self.at("pre_bind", pod.shape, (pod, row, placement), lambda: READY)

    def post_filter(self, preemptor: Preemptor) -> Any:
        return lambda pod: False

    def places(self) -> tuple[str, ...]:
        return ()


class Listening(Driver):
    """A driver with what is logged about plugins."""

    @property
    def logged(self) -> list[LogPluginFailure]:
        return of(LogPluginFailure, self.effects)

    def said(self, name: str) -> str:
        """Why the pod waits."""
        reported = self.machine.records[a_pod(name).uid].reported
        return self.told.get(name, "") if reported is None else reported.message


def driver(plugin: Faulty) -> Listening:
    """A machine with the default profile and this plugin at its point."""
    point = LISTED_AT.get(plugin.point, plugin.point)
    at_point: dict[str, Any] = {"enabled": [{"name": "X"}]}
    if point == "queueSort":
        at_point["disabled"] = [{"name": "*"}]
    # Default sets are not asked once another plugin chose.
    document = {"profiles": [{"plugins": {point: at_point}}]}
    if plugin.point == "card_set":
        at_point["disabled"] = [{"name": "Topology"}]
    made = Listening({})
    made.machine = Machine(profiles(read(document), {**IN_TREE, "X": lambda: plugin}), "test")
    made.tell(*a_cluster({"n1": 4, "n2": 4}))
    return made


@pytest.mark.slow
@pytest.mark.parametrize(("point", "claim", "fault"), CASES)
def test_only_the_pods_in_question_wait(point: str, claim: Any, fault: Fault) -> None:
    plugin = Faulty(point, fault)
    made = driver(plugin)
    good = [a_pod("good", a_shape(claim)), a_pod("plain")]
    assert sorted(names(made.show(*good))) == ["good", "plain"]
    plugin.last_bad = True
    bad = a_pod("bad", a_shape(claim, cpu=BAD_CPU))
    assert made.show(bad) == []
    assert made.said("bad").startswith("plugin Odd failed")
    assert made.machine.ledger.charge_of(bad.uid) is None
    counts = made.machine.boundary.failures.counts
    assert sum(counts.values()) >= 1
    assert {plugin for plugin, _ in counts} == {"Odd"}
    (logged,) = made.logged
    assert logged.message.startswith("plugin Odd failed: ")
    if fault is raises:
        assert logged.message == "plugin Odd failed: KeyError: 'no answer'"
        assert logged.traceback.splitlines()[-1].endswith(" in raises")
        assert logged.traceback.splitlines()[-1].startswith(f"{__name__}:")
    plugin.last_bad = False
    assert names(made.show(a_pod("later", a_shape(claim)))) == ["later"]
    plugin.broken = False
    assert names(made.later(70)) == ["bad"]


@pytest.mark.parametrize("point", sorted({*FAULTS} - {"normaliser"}))
def test_a_slow_plugin_is_told_of_and_its_answers_count(point: str) -> None:
    clock = [0.0]
    plugin = Faulty(point, raises)

    def slow(*args: Any) -> Any:
        clock[0] += 2 * SLOW_TURN_S
        plugin.broken = False
        right = getattr(plugin, "card_score" if point == "card_set" else point)(*args)
        plugin.broken = True
        return right

    plugin.fault = slow
    if point == "pre_filter":
        plugin.fault = lambda *_: clock.__setitem__(0, clock[0] + 2 * SLOW_TURN_S)
    made = driver(plugin)
    boundary = made.machine.boundary
    boundary.stopwatch = lambda: clock[0]
    claim = FAULTS[point][0]
    assert names(made.show(a_pod("good", a_shape(claim)))) == ["good"]
    assert [*boundary.slow_plugins()] == []
    assert names(made.show(a_pod("bad", a_shape(claim, cpu=BAD_CPU)))) == ["bad"]
    ((name, took),) = boundary.slow_plugins()
    assert name == "Odd"
    assert took > SLOW_TURN_S
    assert [*boundary.slow_plugins()] == []


@pytest.mark.parametrize(
    ("point", "question"),
    [
        ("filter", lambda rows: np.zeros(len(rows.index), np.int64)),
        ("card_filter", CardPredicate(lambda rows: rows.flags == 0, lambda rows: rows.flags)),
        ("card_score", lambda rows: rows.tenants),
        ("score", lambda rows, cards: np.zeros(len(rows.index), np.int64)),
    ],
)
def test_a_question_that_is_slow_is_told_of_too(point: str, question: Any) -> None:
    clock = [0.0]

    def slowly(ask: Callable[..., Any]) -> Callable[..., Any]:
        def asked(*args: Any) -> Any:
            clock[0] += 2 * SLOW_TURN_S
            return ask(*args)

        return asked

    slow = (
        CardPredicate(slowly(question.fits), question.reasons)
        if isinstance(question, CardPredicate)
        else slowly(question)
    )
    made = driver(Faulty(point, answers(slow)))
    made.machine.boundary.stopwatch = lambda: clock[0]
    assert names(made.show(a_pod("bad", a_shape(ONE, cpu=BAD_CPU)))) == ["bad"]
    ((name, took),) = made.machine.boundary.slow_plugins()
    assert name == "Odd"
    assert took > SLOW_TURN_S


def test_an_in_tree_plugin_is_not_measured() -> None:
    ticks = iter(range(10_000))
    made = Driver({})
    made.machine.boundary.stopwatch = lambda: float(next(ticks))
    made.tell(*a_cluster({"n1": 4}))
    assert names(made.show(a_pod("p", a_shape(ONE)))) == ["p"]
    assert next(ticks) == 0


#: What these points answer when nothing is wrong.
RIGHT: dict[str, Any] = {
    "places": (),
    "post_filter": lambda pod: True,
    "queueing_hint": True,
    "capacity_bound": None,
    "explain": (),
    "gang_score": lambda rows, cards: rows.index * 0,
}


class Elsewhere(Faulty):
    """Is at fault at a point that is not asked about one pod alone."""

    def __init__(self, point: str, fault: Fault) -> None:
        super().__init__(point, fault)
        setattr(self, point, self.fault_or(RIGHT[point]))

    def fault_or(self, right: Any) -> Any:
        return lambda *args: self.fault(*args) if self.broken else right


def bad_rows(*_: object) -> Any:
    return lambda rows, *_: rows.index[:-1] * 1.0


#: Of each point: its name in a profile, in the log, and what it may do wrong.
ELSEWHERE: dict[str, tuple[str, str, list[Fault]]] = {
    "places": ("locality", "Locality", [raises, exits, answers(7), answers((1,)), answers("zone")]),
    "post_filter": (
        "postFilter",
        "PostFilter",
        [raises, exits, answers(None), answers(raises), answers(lambda pod: "yes")],
    ),
    "queueing_hint": ("filter", "QueueingHint", [raises, exits, answers(None), answers("x")]),
    "capacity_bound": (
        "filter",
        "CapacityBound",
        [raises, exits, answers(7), answers(raises), bad_rows],
    ),
    "explain": ("filter", "Explain", [raises, exits, answers(7), answers(["no"])]),
    "gang_score": ("score", "GangScore", [raises, exits, answers(7), answers(raises), bad_rows]),
}


def busy_cluster(point: str, plugin: Faulty) -> Listening:
    """A machine that comes to ask at every point: a full cluster, a gang, preemptors, waiters."""
    listed = ELSEWHERE[point][0]
    at_point: dict[str, Any] = {"enabled": [{"name": "X"}]}
    if listed == "locality":
        at_point["disabled"] = [{"name": "*"}]
    document = {"profiles": [{"plugins": {listed: at_point}}]}
    made = Listening({})
    made.machine = Machine(profiles(read(document), {**IN_TREE, "X": lambda: plugin}), "test")
    made.tell(*a_cluster({"n1": 4, "n2": 4}))
    return made


@pytest.mark.slow
@pytest.mark.parametrize(
    ("point", "fault"),
    [
        pytest.param(point, fault, id=f"{point}-{number}")
        for point, (_, _, faults) in ELSEWHERE.items()
        for number, fault in enumerate(faults)
    ],
)
def test_at_other_points_single_pods_are_decided_as_before(point: str, fault: Fault) -> None:
    plugin = Elsewhere(point, fault)
    made = busy_cluster(point, plugin)
    low = [a_share(f"low-{number}") for number in range(8)]
    binds = made.bound(made.show(*low), *low)
    assert binds == []
    assert len(made.machine.records) == 8
    # A pod that waits for room, one that may evict, and a gang, which asks for places.
    made.show(a_share("waits", 900))
    made.show(a_share("high", priority=9))
    made.show(*members(a_group(2), 2, whole(1)))
    why(made.machine, a_pod("waits").key)
    freed = made.gone(*low[:4])
    made.later(5)
    assert "waits" in names(freed) or made.machine.records[a_pod("waits").uid].node is not None
    assert names(made.show(a_pod("cpu"))) == ["cpu"]
    counts = made.machine.boundary.failures.counts
    if point != "explain":  # it fails in a reading of its own
        assert ("Odd", ELSEWHERE[point][1]) in counts
    plugin.broken = False
    made.later(70)
    for name in ("waits", "g-0", "g-1"):
        assert made.machine.records[a_pod(name).uid].node is not None, name


class NotMade:
    """Raises when it is made."""

    error: Exception = KeyError("prices")

    def __init__(self, **args: object) -> None:
        raise self.error


class Nameless:
    """Lacks a name, so that nothing could be said of it."""

    def permit(self, pod: Pod, node: str) -> None:
        return None


class Secretive:
    """Has a name that cannot be read."""

    @property
    def name(self) -> str:
        raise RuntimeError("no name")

    def permit(self, pod: Pod, node: str) -> None:
        return None


def at_start(factory: PluginFactory, args: dict[str, Any] | None = None) -> str:
    """What is wrong with a profile that has the plugin at a point."""
    profile: dict[str, Any] = {"plugins": {"permit": {"enabled": [{"name": "X"}]}}}
    if args is not None:
        profile["pluginConfig"] = [{"name": "X", "args": args}]
    with pytest.raises(ConfigurationError) as caught:
        profiles(read({"profiles": [profile]}), {**IN_TREE, "X": factory})
    return str(caught.value)


@pytest.mark.parametrize(
    ("factory", "args", "said"),
    [
        (NotMade, None, "profiles[0].pluginConfig: X without args: KeyError: 'prices'"),
        (NotMade, {"a": 1}, "profiles[0].pluginConfig[0].args: KeyError: 'prices'"),
        (exits, None, "profiles[0].pluginConfig: X without args: SystemExit: no scheduler"),
        (
            Nameless,
            {"a": 1},
            "profiles[0].pluginConfig[0].args.a: no such argument; there are none",
        ),
        (Nameless, None, "profiles[0].plugins.permit.enabled[0].name: X is no permit plugin"),
        (Secretive, None, "profiles[0].plugins.permit.enabled[0].name: X is no permit plugin"),
        (lambda: None, None, "profiles[0].plugins.permit.enabled[0].name: X is no permit plugin"),
        (lambda: 7, None, "profiles[0].plugins.permit.enabled[0].name: X is no permit plugin"),
    ],
)
def test_what_is_wrong_at_the_start_is_an_error_with_its_place(
    factory: PluginFactory, args: dict[str, Any] | None, said: str
) -> None:
    assert at_start(factory, args).startswith(said)
