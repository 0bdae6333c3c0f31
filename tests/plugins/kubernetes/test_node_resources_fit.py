"""Amounts of a node."""

from hypothesis import given
from hypothesis import strategies as st

from kubeshare_plugins.kubernetes.node_resources_fit import NodeResourcesFit
from kubeshare_py.cluster.charge import FIRST_PORT, POOL_SIZE
from kubeshare_py.cluster.columns import PORT_RESOURCE
from kubeshare_py.domain.diagnosis import Shortfall
from kubeshare_py.domain.effects import Bind
from kubeshare_py.domain.events import BindAnswered, BindSlotsFree, Bound, PodGone, PodSeen
from kubeshare_py.scheduling.machine import Machine
from kubeshare_py.testing import SmallCluster
from tests.making import GIB, a_claim, a_machine, a_pod, a_shape, of
from tests.making import a_cluster as a_cluster_of


def a_cluster(**amounts: int) -> SmallCluster:
    cluster = SmallCluster(NodeResourcesFit())
    names = {"storage": "ephemeral-storage", "nic": "example.com/nic"}
    listed = {"cpu": 1000, "memory": GIB, "pods": 10, **amounts}
    cluster.node("n1", allocatable=tuple((names.get(n, n), a) for n, a in listed.items()))
    return cluster


def asking(**amounts: int) -> tuple[tuple[str, int], ...]:
    return tuple(sorted(amounts.items()))


def test_what_is_free_may_be_asked_for_to_the_last_unit() -> None:
    cluster = a_cluster()
    assert cluster.where(a_shape(resources=asking(cpu=1000, memory=GIB))) == {"n1"}
    assert cluster.why(a_shape(resources=asking(cpu=1001))) == {"Insufficient cpu": 1}
    assert cluster.why(a_shape(resources=asking(memory=GIB + 1))) == {"Insufficient memory": 1}


def test_every_resource_that_is_short_is_named() -> None:
    cluster = a_cluster(storage=5)
    shape = a_shape(resources=(("cpu", 2000), ("ephemeral-storage", 6), ("memory", 2 * GIB)))
    assert cluster.why(shape) == {
        "Insufficient cpu": 1,
        "Insufficient ephemeral-storage": 1,
        "Insufficient memory": 1,
    }


def test_evictions_do_not_help_where_the_node_has_less_than_is_asked_for() -> None:
    cluster = a_cluster(cpu=1000, pods=1)
    cluster.hold(resources=asking(cpu=500))
    shapes = [a_shape(resources=asking(**one)) for one in ({"cpu": 1000}, {"cpu": 1001}, {"x": 1})]
    evaluator = cluster.evaluator
    masks = [int(evaluator.masks(shape)[0]) for shape in shapes]
    found = [
        {reason.text: reason.resolvable for reason in evaluator.reasons_in(shape, mask)}
        for shape, mask in zip(shapes, masks, strict=True)
    ]
    assert found == [
        {"Insufficient cpu": True, "Too many pods": True},
        {"Insufficient cpu": False, "Too many pods": True},
        {"Insufficient x": False, "Too many pods": True},
    ]


KINDS = ["cpu", "memory", "ephemeral-storage", "example.com/nic"]
AMOUNTS = st.dictionaries(st.sampled_from(KINDS), st.integers(0, 3))


@given(AMOUNTS, AMOUNTS, AMOUNTS, st.integers(0, 3))
def test_what_fits_is_free_and_the_hint_never_says_no_to_it(
    offered: dict[str, int], held: dict[str, int], asked: dict[str, int], pods: int
) -> None:
    cluster = SmallCluster(NodeResourcesFit())
    cluster.node("n1", allocatable=(*offered.items(), ("pods", pods)))
    cluster.hold(resources=asking(**held))
    shape = a_shape(resources=asking(**asked))
    left = {name: offered.get(name, 0) - held.get(name, 0) for name in KINDS}
    fits = pods > 1 and all(left[name] >= amount for name, amount in asked.items() if amount)
    assert cluster.where(shape) == ({"n1"} if fits else set())
    assert cluster.may_fit(shape) or not fits


def test_what_pods_hold_is_not_free() -> None:
    cluster = a_cluster()
    half = a_shape(resources=asking(cpu=500))
    first = cluster.hold(resources=asking(cpu=501))
    assert cluster.where(half) == set()
    cluster.ledger.release(first)
    assert cluster.where(half) == {"n1"}


def test_a_zero_request_fits_an_overdrawn_node() -> None:
    cluster = a_cluster()
    cluster.hold(resources=asking(cpu=5000, memory=2 * GIB))
    assert cluster.where(a_shape(resources=asking(cpu=0, memory=0))) == {"n1"}
    assert cluster.where(a_shape(resources=())) == {"n1"}
    assert cluster.why(a_shape(resources=asking(cpu=1))) == {"Insufficient cpu": 1}


def test_every_pod_takes_one_of_the_nodes_pods() -> None:
    cluster = a_cluster(pods=2)
    cluster.hold()
    assert cluster.where(a_shape(resources=())) == {"n1"}
    cluster.hold()
    assert cluster.why(a_shape(resources=())) == {"Too many pods": 1}


def test_extended_resources_are_compared_too() -> None:
    cluster = a_cluster(nic=2)
    two = a_shape(resources=(("example.com/nic", 2),))
    assert cluster.where(two) == {"n1"}
    cluster.hold(resources=(("example.com/nic", 1),))
    assert cluster.why(two) == {"Insufficient example.com/nic": 1}


def test_a_resource_that_no_node_offers_is_insufficient() -> None:
    cluster = a_cluster()
    shape = a_shape(resources=(("example.com/fpga", 1),))
    assert cluster.why(shape) == {"Insufficient example.com/fpga": 1}
    assert not cluster.may_fit(shape)
    assert [short.free for short in cluster.explain(shape)] == [0]
    assert cluster.where(a_shape(resources=(("example.com/fpga", 0),))) == {"n1"}


def test_a_resource_counts_from_when_a_node_offers_it() -> None:
    cluster = a_cluster()
    shapes = [a_shape(resources=((f"example.com/{kind}", 1),)) for kind in "abcdef"]
    assert [cluster.where(shape) for shape in shapes] == [set()] * 6
    for number, kind in enumerate("abcdef"):
        cluster.node(f"{kind}", allocatable=((f"example.com/{kind}", 1), ("pods", 1)))
        offered = [{other} for other in "abcdef"[: number + 1]]
        assert [cluster.where(shape) for shape in shapes] == [*offered, *[set()] * (5 - number)]


def test_explaining_changes_nothing() -> None:
    cluster = a_cluster()
    before = dict(cluster.ledger.columns.resources)
    cluster.explain(a_shape(resources=(("example.com/fpga", 1),)))
    assert cluster.ledger.columns.resources == before


def test_shared_pods_need_one_of_511_ports() -> None:
    cluster = a_cluster(pods=1000)
    shared, plain = a_shape(needs_port=True), a_shape()
    for number in range(POOL_SIZE):
        assert cluster.where(shared) == {"n1"}
        cluster.hold(port=FIRST_PORT + number)
    assert cluster.why(shared) == {f"Insufficient {PORT_RESOURCE}": 1}
    assert cluster.where(plain) == {"n1"}


def test_numbers_are_told_for_people() -> None:
    cluster = a_cluster(pods=1)
    cluster.hold(resources=asking(cpu=300))
    assert cluster.explain(a_shape(resources=asking(cpu=900, memory=2 * GIB))) == [
        Shortfall(reason="Insufficient cpu", resource="cpu", asked=900, free=700, unit="milli"),
        Shortfall(
            reason="Insufficient memory",
            resource="memory",
            asked=2 * GIB,
            free=GIB,
            unit="bytes",
        ),
        Shortfall(reason="Too many pods", resource="pods", asked=1, free=0, unit="count"),
    ]


def test_resources_that_share_the_last_reason_still_refuse() -> None:
    cluster = a_cluster()
    # More resources than there are bits in one shape's table.
    wanted = tuple((f"example.com/{number:02d}", 1) for number in range(70))
    cluster.node("n1", allocatable=(("cpu", 1000), ("pods", 10), *((n, 0) for n, _ in wanted)))
    assert cluster.where(a_shape(resources=wanted)) == set()
    why = cluster.why(a_shape(resources=wanted))
    assert why["Insufficient other resources"] == why["Insufficient example.com/00"] == 1


def bound(machine: Machine) -> list[Bind]:
    """Decide until nobody is placed any more; each placement is stored at once."""
    binds: list[Bind] = []
    for _ in range(100):
        decided = of(Bind, machine.handle(BindSlotsFree(64), 0.0))
        for bind in decided:
            machine.handle(BindAnswered(bind.uid, bind.allocation.token, Bound()), 0.0)
        if not decided:
            return binds
        binds += decided
    raise AssertionError("places for ever")


def test_the_512th_shared_pod_of_a_node_waits_and_a_port_comes_back_after_the_round() -> None:
    machine = a_machine()
    for event in a_cluster_of({"n1": 1}, pods=1000):
        machine.handle(event, 0.0)
    pods = [a_pod(f"p{number:03d}", a_shape(a_claim(0), cpu=1)) for number in range(514)]
    for pod in pods[:3]:
        machine.handle(PodSeen(pod), 0.0)
    assert [bind.allocation.port for bind in bound(machine)] == [50051, 50052, 50053]
    machine.handle(PodGone(pods[0].uid), 0.0)
    for pod in pods[3:]:
        machine.handle(PodSeen(pod), 0.0)
    later = [bind.allocation.port for bind in bound(machine)]
    assert later == [*range(50054, 50562), 50051]
    assert len(machine.queue) == 2
    machine.handle(PodGone(pods[100].uid), 0.0)
    assert [bind.allocation.port for bind in bound(machine)] == [50151]
    assert len(machine.queue) == 1


def test_evictions_cannot_help_where_the_node_has_too_little_in_all() -> None:
    cluster = a_cluster(nic=1)
    cluster.node("n2", allocatable=(("cpu", 5000), ("memory", GIB), ("pods", 0)))
    cluster.hold("n1", resources=asking(cpu=900))
    cluster.hold("n2", resources=asking(cpu=4900))

    def evictable_nodes(**amounts: int) -> set[str]:
        rows = cluster.evaluator.evictable_rows(a_shape(resources=asking(**amounts)))
        return {str(cluster.ledger.columns.names[row]) for row in rows.tolist()}

    assert evictable_nodes(cpu=1000) == {"n1", "n2"}
    assert evictable_nodes(cpu=1001) == {"n2"}
    assert evictable_nodes(cpu=5001) == set()
    assert evictable_nodes(cpu=1000, memory=GIB + 1) == set()
    nics = a_shape(resources=(("cpu", 1000), ("example.com/nic", 1)))
    assert cluster.evaluator.evictable_rows(nics).tolist() == [0]
    assert cluster.why(a_shape(resources=asking(cpu=1001))) == {
        "Insufficient cpu": 2,
        "Too many pods": 1,
    }
