"""Cards of other vendors take only pods that name their vendor, and these take no GPUs."""

from kubeshare_py.domain.events import InventoryRead
from kubeshare_py.domain.gpu import PreferredModels
from kubeshare_py.domain.identity import GpuUuid, NodeName
from kubeshare_py.domain.request import GpuClaim
from kubeshare_py.domain.values import replace
from kubeshare_py.scheduling.explain.explanation import why
from tests.making import Driver, a_gpu, a_group, a_pod, a_shape, a_share, members, names

N1, N2 = NodeName("n1"), NodeName("n2")
MLU = PreferredModels(tiers=(("MLU",),))
HALF = GpuClaim(milli=500, memory_milli=500, preferred=MLU, vendor="MLU")
WHOLE = GpuClaim(milli=1000, exclusive=True, preferred=MLU, vendor="MLU")


def driver() -> Driver:
    """A node with a GPU, and one with two MLUs."""
    found = Driver({"n1": 1, "n2": 0})
    mlus = tuple(
        replace(a_gpu(f"MLU-{number}", index=number), model="MLU-MLU370-X4", vendor="MLU")
        for number in range(2)
    )
    found.tell(InventoryRead(((N2, mlus),)))
    return found


def test_a_pod_that_asks_for_gpus_takes_no_mlu() -> None:
    found = driver()
    pods = [a_share(name, 600) for name in "ab"]
    assert names(found.show(*pods)) == ["a"]
    told = why(found.machine, pods[1].key)
    assert told is not None
    assert "card of another vendor" in told.message
    whole = a_pod("w", a_shape(GpuClaim(milli=1000, exclusive=True)))
    assert found.show(whole) == []


def test_a_pod_that_asks_for_mlus_takes_no_gpu() -> None:
    found = driver()
    pods = [a_pod(f"p{number}", a_shape(HALF)) for number in range(5)]
    binds = found.show(*pods)
    assert len(binds) == 4
    assert {bind.node for bind in binds} == {N2}
    held = sorted(card.uuid for bind in binds for card in bind.allocation.cards)
    assert held == [GpuUuid("MLU-0")] * 2 + [GpuUuid("MLU-1")] * 2
    told = why(found.machine, pods[4].key) or why(found.machine, pods[0].key)
    assert told is not None


def test_the_fullest_mlu_with_room_is_taken_first() -> None:
    found = driver()
    pods = [
        a_pod(f"p{milli}", a_shape(replace(HALF, milli=milli, memory_milli=milli)))
        for milli in (300, 800, 100)
    ]
    found.bound(found.show(*pods[:2]), *pods[:2])
    (bind,) = found.show(pods[2])
    assert [card.uuid for card in bind.allocation.cards] == ["MLU-1"]


def test_an_mlu_is_taken_alone_and_shared_by_nobody() -> None:
    found = driver()
    assert names(found.show(a_pod("alone", a_shape(WHOLE)))) == ["alone"]
    assert len(found.show(*(a_pod(f"h{number}", a_shape(HALF)) for number in range(3)))) == 2


def test_a_gang_of_pods_with_mlus_is_placed_where_they_are() -> None:
    found = driver()
    assert names(found.show(*members(a_group(2), 2, WHOLE))) == ["g-0", "g-1"]
    found = driver()
    assert found.show(*members(a_group(3), 3, WHOLE)) == []


def test_a_freed_mlu_wakes_the_pods_that_wait_for_it() -> None:
    found = driver()
    first = [a_pod(f"a{number}", a_shape(WHOLE)) for number in range(2)]
    found.bound(found.show(*first), *first)
    assert found.show(a_pod("late", a_shape(WHOLE))) == []
    assert names(found.gone(first[0])) == ["late"]


def test_two_claims_of_mlus_get_two_cards() -> None:
    found = driver()
    pod = a_pod("two", a_shape(replace(WHOLE, count=2)))
    (bind,) = found.show(pod)
    assert sorted(card.uuid for card in bind.allocation.cards) == ["MLU-0", "MLU-1"]
