"""What charges do to the columns of a row: resources, cards, cards that are not there."""

import pytest

from kubeshare_py.cluster.charge import Charge, NativeGpus, Resources
from kubeshare_py.cluster.columns import ABSENT, CPU, HELD_BACK, PODS, PORTS
from kubeshare_py.cluster.usage_accounting import MAX_STRAYS, UsageAccounting
from kubeshare_py.domain.allocation import Allocation, CardCharge
from kubeshare_py.domain.identity import DecisionToken, GpuUuid, NodeName
from kubeshare_py.domain.quota import NATIVE_GPU
from kubeshare_py.domain.values import replace
from tests.making import some_gpus

N1 = NodeName("n1")
GIB = 1 << 30
CARDS = tuple(replace(card, memory_bytes=16 * GIB) for card in some_gpus("n1", 2))


@pytest.fixture
def accounting() -> UsageAccounting:
    """Row 0 is node n1 with two cards of 16 GiB."""
    found = UsageAccounting()
    assert found.columns.row_for(N1) == 0
    found.lay_out(0, CARDS, (), ())
    return found


def an_allocation(*uuids: str, milli: int = 500, exclusive: bool = False) -> Allocation:
    cards = tuple(CardCharge(GpuUuid(uuid), milli, 4 * GIB, exclusive=exclusive) for uuid in uuids)
    return Allocation(token=DecisionToken("t"), cards=cards)


def a_charge(allocation: Allocation | None = None, *resources: tuple[str, int]) -> Charge:
    return Charge(N1, tuple(resources), allocation)


def test_a_request_is_a_vector_of_the_resource_columns_and_takes_one_pod() -> None:
    accounting = UsageAccounting()
    resources: Resources = (("cpu", 250), ("memory", 2 * GIB))
    assert accounting.vector(resources, port=False).tolist() == [250, 2 * GIB, 0, 1, 0, 0, 0]
    assert accounting.vector(resources, port=True)[PORTS] == 1


def test_a_resource_that_no_node_offers_has_no_column() -> None:
    assert UsageAccounting().vector((("example.com/nic", 3),), port=False).sum() == 1


def test_a_charge_takes_its_resources_and_gives_them_back(accounting: UsageAccounting) -> None:
    free = accounting.columns.free
    before, charge = free[0].tolist(), a_charge(None, ("cpu", 250))
    assert accounting.add(0, charge, 1)
    less = {CPU: before[CPU] - 250, PODS: before[PODS] - 1}
    assert free[0].tolist() == [less.get(column, amount) for column, amount in enumerate(before)]
    assert accounting.add(0, charge, -1)
    assert free[0].tolist() == before


def test_a_charge_takes_share_and_memory_of_its_card(accounting: UsageAccounting) -> None:
    columns = accounting.columns
    assert accounting.add(0, a_charge(an_allocation("GPU-n1-1")), 1)
    assert columns.free_milli[0].tolist() == [1000, 500]
    assert columns.free_bytes[0].tolist() == [16 * GIB, 12 * GIB]
    assert columns.tenants[0].tolist() == [0, 1]
    assert columns.gpu_free_milli[0] == 1500


def test_a_row_whose_amounts_changed_is_logged(accounting: UsageAccounting) -> None:
    seen = accounting.changed.end
    accounting.add(0, a_charge(an_allocation("GPU-n1-0")), 1)
    changed = accounting.changed.since(seen, accounting.columns.rows)
    assert changed is not None
    assert changed.tolist() == [0]


def test_a_charge_on_a_card_without_a_slot_asks_for_a_new_layout(
    accounting: UsageAccounting,
) -> None:
    stray = an_allocation("GPU-gone")
    assert not accounting.add(0, a_charge(stray), 1)
    accounting.lay_out(0, CARDS, (stray,), ())
    columns = accounting.columns
    assert columns.uuids[0] == ["GPU-gone", "GPU-n1-0", "GPU-n1-1"]
    assert columns.flags[0, 0] & ABSENT
    assert columns.gpu_count[0] == 2


def test_cards_that_a_node_does_not_have_get_only_a_few_slots(accounting: UsageAccounting) -> None:
    held = [an_allocation(f"GPU-x-{number:03}") for number in range(MAX_STRAYS + 5)]
    accounting.lay_out(0, CARDS, held, ())
    assert len(accounting.columns.uuids[0]) == len(CARDS) + MAX_STRAYS


def test_a_layout_counts_all_that_is_held_at_once(accounting: UsageAccounting) -> None:
    accounting.lay_out(0, CARDS, (an_allocation("GPU-n1-0"), an_allocation("GPU-n1-0")), ())
    assert accounting.columns.free_milli[0].tolist() == [0, 1000]


def test_reservations_count_like_charges_and_are_known_apart(accounting: UsageAccounting) -> None:
    accounting.lay_out(0, CARDS, (), (an_allocation("GPU-n1-0", milli=300),))
    assert accounting.columns.free_milli[0].tolist() == [700, 1000]
    assert accounting.columns.reserved_milli[0].tolist() == [300, 0]


def test_a_card_of_which_more_is_held_than_it_has_makes_its_node_suspect(
    accounting: UsageAccounting,
) -> None:
    accounting.add(0, a_charge(an_allocation("GPU-n1-0", milli=700)), 1)
    assert not accounting.overdrafts
    accounting.add(0, a_charge(an_allocation("GPU-n1-0", milli=700)), 1)
    assert accounting.overdrafts.take(9) == [N1]


def test_an_exclusive_card_with_another_tenant_makes_its_node_suspect(
    accounting: UsageAccounting,
) -> None:
    accounting.add(0, a_charge(an_allocation("GPU-n1-0", milli=1000, exclusive=True)), 1)
    assert not accounting.overdrafts
    accounting.add(0, a_charge(an_allocation("GPU-n1-0", milli=0)), 1)
    assert accounting.overdrafts.take(9) == [N1]


def test_native_pods_hold_back_as_many_idle_cards(accounting: UsageAccounting) -> None:
    native = a_charge(None, (NATIVE_GPU, 1))
    accounting.add(0, native, 1)
    assert accounting.native == {0: NativeGpus(unknown=1)}
    assert sum(bool(flags & HELD_BACK) for flags in accounting.columns.flags[0].tolist()) >= 1
    accounting.add(0, native, -1)
    assert accounting.native == {}
    assert not any(flags & HELD_BACK for flags in accounting.columns.flags[0].tolist())
