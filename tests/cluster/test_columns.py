"""Which columns the ledger writes when pods and reservations come and go."""

import random

import numpy as np
import pytest

from kubeshare_py.cluster.columns import CHARGED_COLUMNS, COLUMNS, Columns, Follows, Per
from kubeshare_py.cluster.ledger import Ledger
from kubeshare_py.cluster.usage_accounting import Amounts
from kubeshare_py.domain.allocation import Allocation, CardCharge
from kubeshare_py.domain.gpu import PeerLink
from kubeshare_py.domain.identity import DecisionToken, GpuUuid, NodeName, PodUid
from tests.cluster.history import TAGS
from tests.making import a_gpu, a_node
from tests.scale import seeds

NODES = tuple(NodeName(f"n{number}") for number in range(3))
CARDS = 4
PODS = tuple(PodUid(f"p{number}") for number in range(8))


def tables(columns: Columns) -> dict[str, np.ndarray]:
    """Copies of all columns that are arrays."""
    values = {name: getattr(columns, name) for name in Columns.__slots__}
    return {name: one.copy() for name, one in values.items() if isinstance(one, np.ndarray)}


def a_cluster() -> Ledger:
    """Nodes whose cards are pairs, each with room for three tenants."""
    ledger = Ledger()
    for node in NODES:
        ledger.put_node(a_node(node))
        ledger.put_cards(
            node,
            tuple(
                a_gpu(
                    f"{node}-{slot}",
                    index=slot,
                    max_tenants=3,
                    links=(PeerLink(slot ^ 1, "NV4", 0),),
                )
                for slot in range(CARDS)
            ),
        )
    return ledger


def happen(ledger: Ledger, numbers: random.Random) -> None:
    """One pod is charged, released, lingers, or gets or loses a reservation."""
    uid, node = numbers.choice(PODS), numbers.choice(NODES)
    slots = numbers.sample(range(CARDS), numbers.choice((0, 1, 1, 2)))
    shares = [numbers.choice((0, 300, 1000)) for _ in slots]
    exclusive, tags = numbers.random() < 0.2, numbers.choice(TAGS)
    allocation = Allocation(
        token=DecisionToken("t"),
        cards=tuple(
            CardCharge(GpuUuid(f"{node}-{slot}"), milli, 1 << 30, exclusive=exclusive, tags=tags)
            for slot, milli in zip(slots, shares, strict=True)
        ),
        port=None,
    )
    resources = (("cpu", numbers.randrange(100)), ("nvidia.com/gpu", int(not slots)))
    action = numbers.randrange(6)
    if action <= 1:
        ledger.charge(uid, node, resources, allocation)
    elif action == 2:
        ledger.release(uid)
    elif action == 3:
        ledger.reserve(PodUid(f"reserved {uid}"), node, resources, allocation)
    elif action == 4:
        ledger.dissolve(PodUid(f"reserved {uid}"))
    elif ledger.charge_of(uid) is not None:
        ledger.linger(uid)
    else:
        ledger.end_lingering(uid)


def test_all_arrays_are_named() -> None:
    assert sorted(tables(Columns())) == sorted(COLUMNS)


def test_every_column_has_the_shape_type_and_empty_entries_that_it_is_declared_with() -> None:
    columns = a_cluster().columns
    unused, empty_slot = columns.rows - 1, columns.width
    columns.widen(empty_slot + 1)
    lengths = {Per.NODE: (), Per.RESOURCE: columns.free.shape[1:], Per.CARD: (columns.width,)}
    for name, column in COLUMNS.items():
        values = getattr(columns, name)
        assert values.shape == (columns.rows, *lengths[column.per]), name
        assert values.dtype == column.dtype, name
        assert (values[unused] == column.empty).all(), name
        if column.per is Per.CARD:
            assert (values[:, empty_slot] == column.empty).all(), name


def test_a_column_names_only_what_there_is() -> None:
    columns = Columns()
    for name, column in COLUMNS.items():
        assert column.name == name
        if column.whole:
            assert COLUMNS[column.whole].per is column.per
            assert COLUMNS[column.whole].follows is Follows.NODE
        if column.numbers:
            assert hasattr(getattr(columns, column.numbers), "renumber")
        if column.amount:
            assert column.amount in Amounts.__dataclass_fields__


@pytest.mark.parametrize("seed", seeds(3))
def test_charges_and_reservations_change_exactly_the_charged_columns(seed: int) -> None:
    ledger, numbers = a_cluster(), random.Random(seed)
    changed: set[str] = set()
    for _ in range(300):
        before = tables(ledger.columns)
        happen(ledger, numbers)
        after = tables(ledger.columns)
        changed |= {name for name in before if not np.array_equal(before[name], after[name])}
    assert sorted(changed) == sorted(CHARGED_COLUMNS)
