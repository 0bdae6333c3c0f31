"""Reservations that are lifted and laid together count as if that were done one by one."""

from dataclasses import replace
from random import Random
from typing import Any

import numpy as np
import pytest

from kubeshare_py.cluster.charge import NATIVE_GPU
from kubeshare_py.cluster.ledger import Ledger
from kubeshare_py.domain.allocation import Allocation, CardCharge
from kubeshare_py.domain.identity import DecisionToken, GpuUuid, NodeName, PodUid
from tests.builders import a_gpu, a_node
from tests.scale import seeds

NODES = ("n1", "n2", "n3")


def some_allocation(random: Random, node: str) -> Allocation | None:
    """Cards of a node, of which the third is not in its inventory, or none."""
    cards = random.sample(
        range(3 if node == "n3" else 2),
        random.choice((1, 1, 1, 2, 2, 0)[: random.choice((5, 5, 6))]),
    )
    memory, milli = random.choice(((0, 300), (2**30, 500), (2**34, 1000)))
    charges = tuple(CardCharge(GpuUuid(f"{node}-{at}"), milli, memory) for at in cards)
    port = random.choice((None, 50_000))
    allocation = Allocation(token=DecisionToken(""), cards=charges, port=port)
    if random.random() < 0.03:
        return None
    return replace(allocation, exclusive=milli == 1000)


def a_ledger(seed: int) -> Ledger:
    """Nodes with cards, pods that hold some, and reservations, all of them laid."""
    random, ledger = Random(seed), Ledger()
    for node in NODES:
        ledger.put_node(a_node(node))
        gpus = tuple(a_gpu(f"{node}-{at}", index=at, max_tenants=3) for at in range(2))
        ledger.put_cards(NodeName(node), gpus)
    for number in range(30):
        node = random.choice(NODES)
        resources: tuple[tuple[str, int], ...] = (("cpu", random.randrange(1000)),)
        allocation = some_allocation(random, node)
        if allocation is None and node == "n2":
            resources = (*resources, (NATIVE_GPU, 1))
        if number % 5 == 1:
            resources = (*resources, ("example.com/nic", number))
        put = ledger.charge if number % 3 == 0 else ledger.reserve
        put(PodUid(f"p{number}"), NodeName(node), resources, allocation)
    return ledger


def picture(ledger: Ledger) -> dict[str, Any]:
    """All columns, and which card is in which slot."""
    columns = ledger.columns
    names = [name for name in dir(columns) if isinstance(getattr(columns, name), np.ndarray)]
    arrays = {name: getattr(columns, name).tolist() for name in names}
    return {"uuids": [[*uuids] for uuids in columns.uuids], **arrays}


@pytest.mark.parametrize("seed", seeds(40))
def test_together_is_as_one_by_one(seed: int) -> None:
    together, single = a_ledger(seed), a_ledger(seed)
    assert picture(single) == picture(together)
    uids = [*together.reservations][: Random(seed).randrange(21)]
    laid = picture(together)
    together.lift(uids)
    for uid in uids:
        single.lift([uid])
    assert picture(together) == picture(single)
    together.lay(uids)
    assert picture(together) == laid


@pytest.mark.parametrize("seed", seeds(8))
def test_all_rows_that_changed_are_named(seed: int) -> None:
    ledger = a_ledger(seed)
    rows = {ledger.columns.row_of[charge.node] for charge in ledger.reservations.values()}
    for put in (ledger.lift, ledger.lay, ledger.lift):
        before = ledger.changed.end
        put([*ledger.reservations])
        changed = ledger.changed.since(before, 64)
        assert changed is not None
        assert {*changed.tolist()} == rows


@pytest.mark.parametrize("seed", seeds(40))
def test_to_lift_and_lay_again_and_again_is_as_the_first_time(seed: int) -> None:
    """Whatever happens in between: the other ledger never sees these reservations in this order."""
    again, anew = a_ledger(seed), a_ledger(seed)
    random, uids = Random(seed), [*again.reservations][:16]
    for number in range(24):
        is_lifted = number % 2 == 0
        (again.lift if is_lifted else again.lay)(uids)
        (anew.lift if is_lifted else anew.lay)(random.sample(uids, len(uids)))
        assert picture(again) == picture(anew), number
        for what in random.sample(range(7), random.randrange(3)):
            for ledger in (again, anew):
                change(ledger, what, f"p{number // 6 * 3}", is_lifted)


def change(ledger: Ledger, what: int, name: str, is_lifted: bool) -> None:
    """Something else happens on a node."""
    node, uid = NodeName("n1"), PodUid(name)
    charges = (CardCharge(GpuUuid("n1-0"), 100, 0),)
    if what == 0:
        ledger.release(uid)
    elif what == 1:
        allocation = Allocation(token=DecisionToken(""), cards=charges)
        ledger.charge(PodUid(f"new-{name}"), node, (("cpu", 1),), allocation)
    elif what == 2:
        ledger.put_cards(node, (a_gpu("n1-0", healthy=is_lifted), a_gpu("n1-1", index=1)))
    elif what == 3:
        ledger.charge(PodUid(f"native-{name}"), node, ((NATIVE_GPU, 1),), None)
    elif what == 4:
        node2 = a_node("n2", cpu=32_000)
        nics = (("example.com/nic", 99),) if is_lifted else ()
        ledger.put_node(replace(node2, allocatable=(*node2.allocatable, *nics)))
    elif what == 5:
        ledger.put_cards(NodeName("n2"), tuple(a_gpu(f"n2-{at}", index=at) for at in range(9)))
    else:
        # One that is not lifted: of those that are, none is put elsewhere.
        laid = [*ledger.reservations][-1 if is_lifted else 0]
        ledger.reserve(laid, NodeName("n3"), (("example.com/new", 1),), None)
