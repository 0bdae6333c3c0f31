"""Pods on nodes that the API server has not shown: no rows, and nothing is lost or forgotten."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubeshare_py.cluster.charge import Charge
from kubeshare_py.cluster.columns import CARD_COLUMNS, NODE_COLUMNS
from kubeshare_py.cluster.ledger import Ledger
from kubeshare_py.domain.allocation import Allocation, CardCharge
from kubeshare_py.domain.identity import DecisionToken, GpuUuid, NodeName, PodUid
from kubeshare_py.domain.values import replace
from tests.making import a_gpu, a_node
from tests.scale import examples

NAMES = tuple(NodeName(name) for name in ("n0", "n1", "n2"))
PODS = tuple(PodUid(f"p{number}") for number in range(7))
CARDS = tuple(GpuUuid(uuid) for uuid in ("GPU-a", "GPU-b", "GPU-c"))
#: Columns of numbers of whatever came first.
NUMBERED = ("taint_set", "feature_set", "board")
Step = Callable[[Ledger], None]
N9 = NodeName("n9")


def charges() -> st.SearchStrategy[Charge]:
    """What a pod holds somewhere, of cards that the node has or not."""
    cards = st.lists(st.sampled_from(CARDS), unique=True, max_size=2)
    return st.builds(
        a_charge,
        st.sampled_from(NAMES),
        cards,
        milli=st.sampled_from((300, 700, 1000)),
        exclusive=st.booleans(),
        port=st.sampled_from((None, 50051, 50052)),
        gpus=st.integers(0, 1),
    )


def a_charge(
    name: NodeName,
    uuids: Sequence[GpuUuid] = (),
    *,
    milli: int = 300,
    exclusive: bool = False,
    port: int | None = None,
    gpus: int = 0,
) -> Charge:
    cards = tuple(CardCharge(uuid, milli, 100 * milli, exclusive=exclusive) for uuid in uuids)
    allocation = Allocation(token=DecisionToken("t"), cards=cards, port=port)
    resources = (("cpu", 100), ("example.com/nic", 1), ("nvidia.com/gpu", 0 if cards else gpus))
    return Charge(name, resources, allocation)


def put(ledger: Ledger, uid: PodUid, charge: Charge) -> None:
    ledger.charge(uid, charge.node, charge.resources, charge.allocation)


def show(ledger: Ledger, name: NodeName) -> None:
    node = a_node(name)
    ledger.put_node(replace(node, allocatable=(*node.allocatable, ("example.com/nic", 2))))


def list_cards(ledger: Ledger, name: NodeName) -> None:
    # One card is listed by two nodes: pods decide where it counts.
    uuids = {"n0": CARDS[:2], "n1": CARDS[1:2], "n2": ()}[name]
    ledger.put_cards(name, tuple(a_gpu(uuid, index=at) for at, uuid in enumerate(uuids)))


def seen(ledger: Ledger) -> dict[str, object]:
    """All that is to be known of nodes that are shown, and the books."""
    columns = ledger.columns
    found: dict[str, object] = {}
    for name in sorted(NAMES):
        found[f"pods {name}"] = sorted(ledger.pods_on(name).items())
        row = columns.row_of.get(name)
        if row is None or not columns.present[row]:
            continue
        width = len(columns.uuids[row])
        found[f"ports {name}"] = ledger.shared_ports(name)
        found[f"native {name}"] = ledger.held_back_on(name)
        found[f"uuids {name}"] = columns.uuids[row]
        for resource, column in columns.resources.items():
            found[f"{resource} {name}"] = columns.free.item(row, column)
        for column_name in NODE_COLUMNS:
            if column_name not in NUMBERED:
                found[f"{column_name} {name}"] = getattr(columns, column_name).item(row)
        for column_name in CARD_COLUMNS:
            if column_name != "model":
                column_of_row = getattr(columns, column_name)[row, :width]
                found[f"{column_name} {name}"] = column_of_row.tolist()
    shown = {name for name in NAMES if f"uuids {name}" in found}
    found["disputes"] = sorted(ledger.claims.disputes.items())
    found["over"] = sorted(one for one in ledger.overcommitted() if one[0] in shown)
    found["not alone"] = sorted(one for one in ledger.unexclusive() if one[0] in shown)
    return found


@examples(200)
@given(
    st.dictionaries(st.sampled_from(PODS), charges()),
    st.dictionaries(st.sampled_from(PODS), charges()),
    st.sets(st.sampled_from(NAMES)),
    st.sets(st.sampled_from(NAMES)),
    st.randoms(use_true_random=False),
)
def test_it_makes_no_difference_what_came_first(
    stay: dict[PodUid, Charge],
    leave: dict[PodUid, Charge],
    shown: set[NodeName],
    flap: set[NodeName],
    order: Random,
) -> None:
    ledger, plain = Ledger(), Ledger()
    for name in NAMES:
        list_cards(plain, name)
    for name in sorted(shown):
        show(plain, name)
    for uid, charge in sorted(stay.items()):
        put(plain, uid, charge)
    for step in shuffled([*of_pods(stay, leave), *of_nodes(shown, flap)], order):
        step(ledger)
    assert seen(ledger) == seen(plain)
    assert ledger.columns.row_of.keys() - shown <= flap
    for uid in PODS:
        ledger.release(uid)
    assert ledger.columns.row_of.keys() == shown
    assert not any(ledger.pods_on(name) or ledger.shared_ports(name) for name in NAMES)


def of_pods(stay: dict[PodUid, Charge], leave: dict[PodUid, Charge]) -> Iterator[list[Step]]:
    """Of each pod, what happens to it: it is elsewhere before, or leaves."""
    for uid in PODS:
        steps: list[Step] = [
            partial(put, uid=uid, charge=one[uid]) for one in (leave, stay) if uid in one
        ]
        yield [*steps] if uid in stay else [*steps, partial(Ledger.release, uid=uid)]


def of_nodes(shown: set[NodeName], flap: set[NodeName]) -> Iterator[list[Step]]:
    """Of each node, what happens to it: it is shown, or goes, or both and comes back."""
    for name in NAMES:
        comes: Step = partial(show, name=name)
        goes: Step = partial(Ledger.drop_node, name=name)
        yield (
            [comes] * (name in shown or name in flap)
            + [goes] * (name in flap)
            + ([comes] * (name in shown and name in flap))
        )
        yield [partial(list_cards, name=name)]


def shuffled(lines: Iterable[list[Step]], order: Random) -> list[Step]:
    """All steps, those of a line in their order."""
    left = [[*line] for line in lines]
    turns = [at for at, line in enumerate(left) for _ in line]
    order.shuffle(turns)
    return [left[at].pop(0) for at in turns]


@pytest.mark.slow
def test_pods_that_name_nodes_that_do_not_exist_take_no_rows() -> None:
    ledger, count = Ledger(), 3000
    show(ledger, NAMES[0])
    before = ledger.columns.rows, ledger.columns.width, dict(ledger.columns.row_of)
    ends = ledger.changed.end, ledger.improved.end
    uids = [PodUid(f"far-{number}") for number in range(count)]
    for number, uid in enumerate(uids):
        put(ledger, uid, a_charge(NodeName(f"no-{number}"), CARDS, port=50051))
    found = ledger.columns.rows, ledger.columns.width, dict(ledger.columns.row_of)
    assert found == before
    assert (ledger.changed.end, ledger.improved.end) == ends
    assert {*ledger.pods_on(NodeName("no-7"))} == {"far-7"}
    for uid in uids:
        ledger.release(uid)
    books = (one for one in vars(ledger).values() if isinstance(one, dict | set))
    assert not any(books)


def test_a_port_that_pods_share_is_news_once_their_node_is_shown() -> None:
    ledger = Ledger()
    for uid in PODS[:2]:
        put(ledger, uid, a_charge(N9, port=50051))
    assert ledger.shared_ports(N9) == [50051]
    assert ledger.shared_port_count == 0
    assert ledger.overdrafts.take(9) == []
    ledger.put_node(a_node(N9))
    assert ledger.shared_port_count == 1
    assert ledger.overdrafts.take(9) == [N9]


def test_what_is_tried_with_a_pod_whose_node_is_not_shown_changes_nothing() -> None:
    ledger = Ledger()
    put(ledger, PODS[0], a_charge(N9, CARDS[:1], port=50051))
    put(ledger, PODS[1], a_charge(N9, CARDS[:1], port=50052))
    ledger.undo_charge(PODS[1])
    assert ledger.next_port(N9) == 50052
    assert not ledger.linger(PODS[0])
    assert ledger.next_port(N9) == 50051
    assert ledger.columns.row_of == {}
    assert ledger.columns.rows == 0


@pytest.mark.parametrize("kept", [0, 1])
def test_an_reservation_on_a_node_that_is_not_shown_minds_the_pods_there(kept: int) -> None:
    ledger, place = Ledger(), a_charge(N9, CARDS[:kept])
    put(ledger, PODS[0], a_charge(N9, CARDS[:1]))
    ledger.reserve(PODS[1], N9, place.resources, place.allocation)
    row = ledger.columns.row_of[N9]
    assert ledger.columns.tenants[row, 0] == 1 + kept
    ledger.dissolve(PODS[1])
    assert ledger.columns.tenants[row, 0] == 1
    ledger.release(PODS[0])
    assert ledger.columns.row_of == {}
